//! Rejects an order that nobody can work on, and finds it in the dead message queue.

use fe2o3_amqp::link::receiver::CreditMode;
use fe2o3_amqp::session::SessionHandle;
use fe2o3_amqp::types::messaging::annotations::AnnotationKey;
use fe2o3_amqp::types::primitives::Value;
use fe2o3_amqp::{Receiver, Sender};
use orders::{amqp, Result};

async fn receiver(session: &mut SessionHandle<()>, queue: &str) -> Result<Receiver> {
    let builder = Receiver::builder()
        .name(queue)
        .source(queue)
        .credit_mode(CreditMode::Auto(1));
    Ok(builder.attach(session).await?)
}

#[tokio::main]
async fn main() -> Result<()> {
    let (mut connection, mut session) = amqp::connect().await?;
    let mut sender = Sender::attach(&mut session, "publisher", "orders").await?;
    let outcome = sender
        .send(amqp::keyed("customer-4", "no order at all".to_owned()))
        .await?;
    outcome.accepted_or_else(|state| format!("not stored: {state:?}"))?;

    let mut orders = receiver(&mut session, "orders").await?;
    loop {
        let order = orders.recv::<amqp::Any>().await?;
        let text = amqp::text(&order);
        if text.starts_with("order ") {
            println!("done: {text}");
            orders.accept(&order).await?;
        } else {
            println!("rejected: {text}");
            orders.reject(&order, None).await?; // `modify` with delivery_failed would give it one more try
            break;
        }
    }

    let mut dead = receiver(&mut session, "dead").await?;
    let message = dead.recv::<amqp::Any>().await?;
    let reason = message
        .message()
        .message_annotations
        .as_ref()
        .and_then(|annotations| {
            annotations.get(&"x-opt-sluicegate-dead-reason" as &dyn AnnotationKey)
        });
    if let Some(Value::String(reason)) = reason {
        println!("dead: {} ({reason})", amqp::text(&message));
    }
    dead.accept(&message).await?;
    session.end().await?;
    connection.close().await?;
    Ok(())
}
