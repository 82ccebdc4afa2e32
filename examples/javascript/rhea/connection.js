// One connection to the broker. rhea connects again by itself when it is lost.
import rhea from "rhea";

const { hostname: host, port } = new URL(process.env.AMQP_URL ?? "amqp://127.0.0.1:5672");
export const connection = rhea.connect({ host, port });

// Ends the program if the broker does not store what a sender has sent.
export function failUnlessStored(sender) {
  for (const outcome of ["rejected", "released", "modified"]) {
    sender.on(outcome, ({ delivery }) => {
      console.error(`not stored: ${outcome} ${delivery.remote_state?.error?.description ?? ""}`);
      process.exitCode = 1;
      connection.close();
    });
  }
}
