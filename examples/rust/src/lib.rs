//! What the programs share: how they connect, and what an order is on the wire.

use std::error::Error;

pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The answer to a question for a price.
pub fn price(fruit: &str) -> &'static str {
    match fruit {
        "apple" => "0.30",
        "pear" => "0.45",
        _ => "unknown",
    }
}

pub mod amqp {
    use super::Result;
    use fe2o3_amqp::connection::ConnectionHandle;
    use fe2o3_amqp::link::delivery::Delivery;
    use fe2o3_amqp::sasl_profile::SaslProfile;
    use fe2o3_amqp::session::SessionHandle;
    use fe2o3_amqp::types::messaging::{AmqpValue, Body, Header, Message, Properties};
    use fe2o3_amqp::types::primitives::Value;
    use fe2o3_amqp::{Connection, Session};

    /// A body of any kind: other clients may send a string or bytes.
    pub type Any = Body<Value>;

    pub async fn connect() -> Result<(ConnectionHandle<()>, SessionHandle<()>)> {
        let url = std::env::var("AMQP_URL").unwrap_or("amqp://127.0.0.1:5672".into());
        let mut connection = Connection::builder()
            .container_id(format!("orders-{}", std::process::id()))
            .sasl_profile(SaslProfile::Anonymous)
            .open(url.as_str())
            .await?;
        let session = Session::begin(&mut connection).await?;
        Ok((connection, session))
    }

    /// A message with text and a partition key.
    pub fn keyed(key: &str, text: String) -> Message<AmqpValue<String>> {
        Message::builder()
            .header(Header::builder().durable(true).build())
            .properties(Properties::builder().group_id(key.to_owned()).build())
            .value(text)
            .build()
    }

    pub fn key(delivery: &Delivery<Any>) -> &str {
        let properties = delivery.message().properties.as_ref();
        properties
            .and_then(|each| each.group_id.as_deref())
            .unwrap_or_default()
    }

    pub fn text(delivery: &Delivery<Any>) -> String {
        match delivery.body() {
            Body::Value(AmqpValue(Value::String(text))) => text.clone(),
            Body::Data(parts) => parts
                .iter()
                .map(|part| String::from_utf8_lossy(&part.0).into_owned())
                .collect(),
            other => format!("{other:?}"),
        }
    }
}

pub mod mqtt {
    use super::Result;
    use rumqttc::v5::mqttbytes::v5::{Publish, PublishProperties, SubAck, SubscribeReasonCode};
    use rumqttc::v5::{AsyncClient, EventLoop, MqttOptions};

    /// A client, and the loop that connects it, again and again where needed. Whoever polls the loop must not wait for
    /// the client; it has room for 100 requests.
    pub fn connect(name: &str) -> Result<(AsyncClient, EventLoop)> {
        let url = std::env::var("MQTT_URL").unwrap_or("mqtt://127.0.0.1:1883".into());
        let id = format!("{name}-{}", std::process::id());
        let mut options = MqttOptions::parse_url(format!("{url}?client_id={id}"))?;
        options.set_manual_acks(true);
        Ok(AsyncClient::new(options, 100))
    }

    /// Fails if the broker refused a subscription, for example because there is no such queue.
    pub fn check(answer: &SubAck) -> Result<()> {
        let refused =
            |code: &&SubscribeReasonCode| !matches!(code, SubscribeReasonCode::Success(_));
        match answer.return_codes.iter().find(refused) {
            Some(code) => Err(format!("not subscribed: {code:?}").into()),
            None => Ok(()),
        }
    }

    /// Properties of text with a partition key.
    pub fn keyed(key: &str) -> PublishProperties {
        PublishProperties {
            user_properties: vec![("JMSXGroupID".into(), key.into())],
            payload_format_indicator: Some(1), // AMQP clients get a string, not bytes
            ..Default::default()
        }
    }

    pub fn user_property<'a>(publish: &'a Publish, name: &str) -> Option<&'a str> {
        let properties = publish.properties.as_ref()?;
        let found = properties
            .user_properties
            .iter()
            .find(|(each, _)| each == name)?;
        Some(&found.1)
    }
}
