//! Works on orders until Ctrl-C. Start as many of these as you like: they share the queue by customers.

use fe2o3_amqp::link::receiver::CreditMode;
use fe2o3_amqp::Receiver;
use orders::{amqp, Result};

#[tokio::main]
async fn main() -> Result<()> {
    let (_connection, mut session) = amqp::connect().await?;
    let mut receiver = Receiver::builder()
        .name("worker")
        .source("orders")
        .credit_mode(CreditMode::Auto(10)) // how many orders it holds at once; no other worker has them
        .attach(&mut session)
        .await?;
    loop {
        let order = receiver.recv::<amqp::Any>().await?;
        println!("{}: {}", amqp::key(&order), amqp::text(&order));
        receiver.accept(&order).await?; // before this, the order comes again if the worker dies
    }
}
