//! Answers questions for prices until Ctrl-C. Several of these share the questions.

use orders::{mqtt, price, Result};
use rumqttc::v5::mqttbytes::v5::{Packet, PublishProperties};
use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::Event;

#[tokio::main]
async fn main() -> Result<()> {
    let (client, mut events) = mqtt::connect("prices")?;
    loop {
        match events.poll().await? {
            Event::Incoming(Packet::ConnAck(_)) => {
                client.try_subscribe("$queue/prices", QoS::AtLeastOnce)?
            }
            Event::Incoming(Packet::SubAck(answer)) => mqtt::check(&answer)?,
            Event::Incoming(Packet::Publish(question)) => {
                let asked = question.properties.clone().unwrap_or_default();
                if let Some(topic) = asked.response_topic {
                    // The topic may be a queue of an AMQP client.
                    let answer = PublishProperties {
                        correlation_data: asked.correlation_data,
                        payload_format_indicator: Some(1),
                        ..Default::default()
                    };
                    let price = price(&String::from_utf8_lossy(&question.payload));
                    client.try_publish_with_properties(
                        topic,
                        QoS::AtLeastOnce,
                        false,
                        price,
                        answer,
                    )?;
                }
                client.try_ack(&question)?;
            }
            _ => {}
        }
    }
}
