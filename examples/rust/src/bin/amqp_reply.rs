//! Answers questions for prices until Ctrl-C. Several of these share the questions.

use fe2o3_amqp::types::messaging::{Message, Properties, Target};
use fe2o3_amqp::{Receiver, Sender};
use orders::{amqp, price, Result};

#[tokio::main]
async fn main() -> Result<()> {
    let (_connection, mut session) = amqp::connect().await?;
    // No address of its own: each answer has one.
    let mut sender = Sender::builder()
        .name("answers")
        .target(Target::builder().build())
        .attach(&mut session)
        .await?;
    let mut receiver = Receiver::attach(&mut session, "questions", "prices").await?;
    loop {
        let question = receiver.recv::<amqp::Any>().await?;
        let asked = question.message().properties.as_ref();
        // Without an address nobody waits for an answer.
        if let Some(asked) = asked.filter(|each| each.reply_to.is_some()) {
            let properties = Properties {
                to: asked.reply_to.clone(),
                correlation_id: asked.correlation_id.clone(),
                ..Default::default()
            };
            let text = price(&amqp::text(&question)).to_owned();
            let outcome = sender
                .send(
                    Message::builder()
                        .properties(properties)
                        .value(text)
                        .build(),
                )
                .await?;
            // Whoever asked may be gone. The question must not come again for that.
            if let Err(state) = outcome.accepted_or_else(|state| state) {
                eprintln!("answer not stored: {state:?}");
            }
        }
        receiver.accept(&question).await?;
    }
}
