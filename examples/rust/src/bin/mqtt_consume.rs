//! Works on orders until Ctrl-C. Start as many of these as you like: they share the queue by customers.

use orders::{mqtt, Result};
use rumqttc::v5::mqttbytes::v5::Packet;
use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::Event;

#[tokio::main]
async fn main() -> Result<()> {
    let (client, mut events) = mqtt::connect("worker")?;
    loop {
        match events.poll().await? {
            // At each new connection.
            Event::Incoming(Packet::ConnAck(_)) => {
                client.try_subscribe("$queue/orders", QoS::AtLeastOnce)?
            }
            Event::Incoming(Packet::SubAck(answer)) => mqtt::check(&answer)?,
            Event::Incoming(Packet::Publish(order)) => {
                let key = mqtt::user_property(&order, "JMSXGroupID").unwrap_or_default();
                println!("{key}: {}", String::from_utf8_lossy(&order.payload));
                client.try_ack(&order)?; // before this, the order comes again if the worker dies
            }
            _ => {}
        }
    }
}
