//! Takes an order and writes its invoice: both happen, or neither does.

use fe2o3_amqp::transaction::{
    Controller, Transaction, TransactionDischarge, TransactionalRetirement,
};
use fe2o3_amqp::{Receiver, Sender};
use orders::{amqp, Result};

#[tokio::main]
async fn main() -> Result<()> {
    let (mut connection, mut session) = amqp::connect().await?;
    let controller = Controller::attach(&mut session, "controller").await?;
    let mut orders = Receiver::attach(&mut session, "orders", "orders").await?;
    let mut invoices = Sender::attach(&mut session, "invoices", "invoices").await?;

    let transaction = Transaction::declare(&controller, None).await?;
    let order = orders.recv::<amqp::Any>().await?;
    let invoice = format!("invoice for {}", amqp::text(&order));
    transaction
        .post(
            &mut invoices,
            amqp::keyed(amqp::key(&order), invoice.clone()),
        )
        .await?;
    transaction.accept(&mut orders, &order).await?;
    transaction.commit().await?; // before this nobody sees the invoice, and rollback() gives the order back
    println!("committed: {invoice}");

    session.end().await?;
    connection.close().await?;
    Ok(())
}
