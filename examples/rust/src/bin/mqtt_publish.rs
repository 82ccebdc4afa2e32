//! Publishes twelve orders of three customers; the orders of a customer stay in their order.

use orders::{mqtt, Result};
use rumqttc::v5::mqttbytes::v5::{Packet, PubAckReason};
use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::Event;

#[tokio::main]
async fn main() -> Result<()> {
    let (client, mut events) = mqtt::connect("publisher")?;
    for number in 1..=12 {
        let customer = format!("customer-{}", number % 3 + 1);
        let text = format!("order {number}");
        client
            .publish_with_properties(
                "orders/eu",
                QoS::AtLeastOnce,
                false,
                text,
                mqtt::keyed(&customer),
            )
            .await?;
    }
    let mut stored = 0;
    while stored < 12 {
        if let Event::Incoming(Packet::PubAck(answer)) = events.poll().await? {
            match answer.reason {
                PubAckReason::Success | PubAckReason::NoMatchingSubscribers => stored += 1,
                refused => return Err(format!("not stored: {refused:?}").into()),
            }
        }
    }
    println!("12 orders published");
    Ok(())
}
