//! Publishes twelve orders of three customers; the orders of a customer stay in their order.

use fe2o3_amqp::Sender;
use orders::{amqp, Result};

#[tokio::main]
async fn main() -> Result<()> {
    let (mut connection, mut session) = amqp::connect().await?;
    let mut sender = Sender::attach(&mut session, "publisher", "topic://orders/eu").await?;
    for number in 1..=12 {
        let customer = format!("customer-{}", number % 3 + 1);
        // The outcome comes when the broker has stored the order.
        let outcome = sender
            .send(amqp::keyed(&customer, format!("order {number}")))
            .await?;
        outcome.accepted_or_else(|state| format!("not stored: {state:?}"))?;
    }
    println!("12 orders published");
    sender.close().await?;
    session.end().await?;
    connection.close().await?;
    Ok(())
}
