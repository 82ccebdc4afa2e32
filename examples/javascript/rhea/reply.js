// Answers questions for prices until Ctrl-C. Several of these share the questions.
//
// rhea accepts a question when its handler returns, before the broker has stored the answer: if this program dies in
// between, the answer is lost, and the question does not come again.
import { connection } from "./connection.js";

const PRICES = { apple: "0.30", pear: "0.45" };

const sender = connection.open_sender({ target: {} }); // no address of its own: each answer has one
sender.once("sendable", () => {
  connection.open_receiver("prices").on("message", ({ message: question }) => {
    const { reply_to: to, correlation_id, body } = question;
    if (!to) return; // nobody waits for an answer
    sender.send({ to, correlation_id, body: PRICES[body] ?? "unknown" });
  });
});
