// Asks for the price of an apple, and prints the answer.
import { connection, failUnlessStored } from "./connection.js";

const answers = connection.open_receiver({ source: { dynamic: true } }); // a temporary queue
answers.once("receiver_open", () => {
  const question = { body: "apple", reply_to: answers.source.address, correlation_id: "1" };
  const questions = connection.open_sender("prices");
  failUnlessStored(questions);
  questions.once("sendable", () => questions.send(question));
});
answers.on("message", ({ message }) => {
  if (message.correlation_id === "1") {
    console.log(`apple: ${message.body}`);
    connection.close();
  }
});
