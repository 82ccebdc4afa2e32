//! Asks for the price of an apple, and prints the answer.

use orders::{mqtt, Result};
use rumqttc::v5::mqttbytes::v5::{Packet, PublishProperties};
use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::Event;

#[tokio::main]
async fn main() -> Result<()> {
    let (client, mut events) = mqtt::connect("shopper")?;
    let answers = format!("answers/{}", std::process::id());
    client.subscribe(answers.as_str(), QoS::AtLeastOnce).await?;
    loop {
        match events.poll().await? {
            // Now no answer comes too early.
            Event::Incoming(Packet::SubAck(answer)) => {
                mqtt::check(&answer)?;
                let question = PublishProperties {
                    response_topic: Some(answers.clone()),
                    correlation_data: Some("1".into()),
                    payload_format_indicator: Some(1),
                    ..Default::default()
                };
                client.try_publish_with_properties(
                    "$queue/prices",
                    QoS::AtLeastOnce,
                    false,
                    "apple",
                    question,
                )?;
            }
            Event::Incoming(Packet::Publish(answer)) => {
                println!("apple: {}", String::from_utf8_lossy(&answer.payload));
                return Ok(());
            }
            _ => {}
        }
    }
}
