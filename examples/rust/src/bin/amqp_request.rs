//! Asks for the price of an apple, and prints the answer.

use fe2o3_amqp::types::messaging::{Message, Properties, Source};
use fe2o3_amqp::{Receiver, Sender};
use orders::{amqp, Result};

#[tokio::main]
async fn main() -> Result<()> {
    let (mut connection, mut session) = amqp::connect().await?;
    // A temporary queue of this connection, which the broker names.
    let mut answers = Receiver::builder()
        .name("answers")
        .source(Source::builder().dynamic(true).build())
        .attach(&mut session)
        .await?;
    let reply_to = answers
        .source()
        .as_ref()
        .and_then(|source| source.address.clone());
    let mut questions = Sender::attach(&mut session, "questions", "prices").await?;
    let properties = Properties {
        reply_to,
        correlation_id: Some("1".to_owned().into()),
        ..Default::default()
    };
    let question = Message::builder()
        .properties(properties)
        .value("apple".to_owned())
        .build();
    let outcome = questions.send(question).await?;
    outcome.accepted_or_else(|state| format!("not stored: {state:?}"))?;
    let answer = answers.recv::<amqp::Any>().await?;
    answers.accept(&answer).await?;
    println!("apple: {}", amqp::text(&answer));
    session.end().await?;
    connection.close().await?;
    Ok(())
}
