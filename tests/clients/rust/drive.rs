//! Drives Apache RocketMQ's official Rust client, unmodified, as a test says: the same commands and
//! answers as drive.py has, as far as the client goes. It has producers and simple consumers only.

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use base64::engine::general_purpose::STANDARD;
use base64::Engine;
use rocketmq::conf::{ClientOption, ProducerOption, SimpleConsumerOption};
use rocketmq::error::ClientError;
use rocketmq::model::common::{FilterExpression, FilterType};
use rocketmq::model::message::{AckMessageEntry, Message, MessageBuilder, MessageView};
use rocketmq::model::transaction::{Transaction, TransactionResolution};
use rocketmq::{Producer, SimpleConsumer};
use serde_json::{json, Map, Value};

type Answer = Result<Value, ClientError>;

/// A simple consumer is told its filter with each receive.
struct Simple {
    consumer: SimpleConsumer,
    topic: String,
    filter: FilterExpression,
}

struct Driver {
    address: String,
    options: Value,
    producers: Mutex<HashMap<String, Arc<Producer>>>,
    consumers: Mutex<HashMap<String, Arc<Simple>>>,
    /// Messages by the receipt handle that they came with.
    held: Mutex<HashMap<String, Arc<MessageView>>>,
}

static DRIVER: OnceLock<Driver> = OnceLock::new();

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let driver = DRIVER.get_or_init(|| Driver {
        address: arguments[1].clone(),
        options: serde_json::from_str(&arguments[2]).expect("options in JSON"),
        producers: Default::default(),
        consumers: Default::default(),
        held: Default::default(),
    });
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    while let Some(line) = receiver.recv().await {
        tokio::spawn(answer(driver, line));
    }
    std::process::exit(0);
}

fn say(line: Value) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|_| out.flush());
}

async fn answer(driver: &'static Driver, line: String) {
    let command: Value = serde_json::from_str(&line).expect("a command in JSON");
    match driver.done(&command).await {
        Ok(found) => say(json!({"id": command["id"], "ok": found})),
        Err(error) => say(json!({"id": command["id"], "error": {
            "type": format!("{:?}", error.kind()),
            "code": error.context().iter().find(|(key, _)| *key == "code").map(|(_, code)| code),
            "text": error.to_string(),
        }})),
    }
}

impl Driver {
    async fn done(&self, command: &Value) -> Answer {
        match text(&command["do"]) {
            "producer" => self.producer(command).await,
            "simple" => self.simple(command).await,
            "send" => self.send(command).await,
            "receive" => self.receive(command).await,
            "ack" => self.ack(command).await,
            "shutdown" => self.shutdown(text(&command["name"])).await,
            other => panic!("this client has no {other}"),
        }
    }

    fn options(&self) -> ClientOption {
        let mut found = ClientOption::default();
        found.set_access_url(self.address.clone());
        found.set_enable_tls(self.options["tls"].as_bool().unwrap_or(false));
        let timeout_s = self.options["timeout_s"].as_u64().unwrap_or(10);
        found.set_timeout(Duration::from_secs(timeout_s));
        if let Some(key) = self.options["access_key"].as_str() {
            found.set_access_key(key);
            found.set_secret_key(text(&self.options["secret_key"]));
        }
        found
    }

    async fn producer(&self, command: &Value) -> Answer {
        let name = text(&command["name"]).to_string();
        let mut option = ProducerOption::default();
        option.set_topics(texts(&command["topics"]));
        let mut producer = match command["checks"].clone() {
            Value::Object(checks) => {
                let client = name.clone();
                let checker =
                    move |_: String, view: MessageView| check(&client, &checks, &view);
                Producer::new_transaction_producer(option, self.options(), Box::new(checker))?
            }
            _ => Producer::new(option, self.options())?,
        };
        producer.start().await?;
        self.producers.lock().unwrap().insert(name, Arc::new(producer));
        Ok(Value::Null)
    }

    async fn simple(&self, command: &Value) -> Answer {
        let subscriptions = command["subscriptions"].as_object().expect("subscriptions");
        assert_eq!(subscriptions.len(), 1, "each receive is of one topic");
        let (topic, expression) = subscriptions.iter().next().unwrap();
        let expression = text(expression);
        let filter = match expression.strip_prefix("SQL: ") {
            Some(sql) => FilterExpression::new(FilterType::Sql, sql),
            None => FilterExpression::new(FilterType::Tag, expression),
        };
        let mut option = SimpleConsumerOption::default();
        option.set_consumer_group(text(&command["group"]));
        option.set_topics(vec![topic.clone()]);
        let mut client = self.options();
        let wait_s = command["wait_s"].as_u64().expect("wait_s");
        client.set_long_polling_timeout(Duration::from_secs(wait_s));
        let mut consumer = SimpleConsumer::new(option, client)?;
        consumer.start().await?;
        let simple = Simple { consumer, topic: topic.clone(), filter };
        let name = text(&command["name"]).to_string();
        self.consumers.lock().unwrap().insert(name, Arc::new(simple));
        Ok(Value::Null)
    }

    async fn send(&self, command: &Value) -> Answer {
        let name = text(&command["name"]);
        let producer = self.producers.lock().unwrap()[name].clone();
        let wanted = text(&command["transaction"]);
        let message = message_of(&command["message"], !wanted.is_empty())?;
        if wanted.is_empty() {
            let receipt = producer.send(message).await?;
            return Ok(told_receipt(receipt.message_id(), receipt.transaction_id()));
        }
        let transaction = producer.send_transaction_message(message).await?;
        let receipt = told_receipt(transaction.message_id(), transaction.transaction_id());
        match wanted {
            "commit" => transaction.commit().await?,
            "rollback" => transaction.rollback().await?,
            _ => (),
        }
        Ok(receipt)
    }

    async fn receive(&self, command: &Value) -> Answer {
        let name = text(&command["name"]);
        let simple = self.consumers.lock().unwrap()[name].clone();
        let invisible = Duration::from_secs(command["invisible_s"].as_u64().expect("invisible_s"));
        let count = command["max"].as_i64().expect("max") as i32;
        let views = simple
            .consumer
            .receive_with(&simple.topic, &simple.filter, count, invisible)
            .await?;
        let mut held = self.held.lock().unwrap();
        let mut found = Vec::new();
        for view in views {
            let handle = view.receipt_handle(); // what a checker gets has none
            let mut message = told(&view);
            message["handle"] = json!(handle);
            found.push(message);
            held.insert(handle, Arc::new(view));
        }
        Ok(Value::Array(found))
    }

    async fn ack(&self, command: &Value) -> Answer {
        let name = text(&command["name"]);
        let simple = self.consumers.lock().unwrap()[name].clone();
        let view = self.held.lock().unwrap()[text(&command["handle"])].clone();
        simple.consumer.ack(&*view).await?;
        Ok(Value::Null)
    }

    /// A client is consumed by its end, which waits for the calls that still use it.
    async fn shutdown(&self, name: &str) -> Answer {
        let producer = self.producers.lock().unwrap().remove(name);
        if let Some(producer) = producer {
            alone(producer).await.shutdown().await?;
        }
        let consumer = self.consumers.lock().unwrap().remove(name);
        if let Some(simple) = consumer {
            alone(simple).await.consumer.shutdown().await?;
        }
        Ok(Value::Null)
    }
}

async fn alone<T>(mut shared: Arc<T>) -> T {
    loop {
        match Arc::try_unwrap(shared) {
            Ok(found) => return found,
            Err(still) => shared = still,
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn check(client: &str, checks: &Map<String, Value>, view: &MessageView) -> TransactionResolution {
    let body = String::from_utf8_lossy(view.body()).to_string();
    let answer = checks.get(&body).map_or("unknown", text);
    say(json!({"event": "check", "client": client, "message": told(view), "answer": answer}));
    match answer {
        "commit" => TransactionResolution::COMMIT,
        "rollback" => TransactionResolution::ROLLBACK,
        _ => TransactionResolution::UNKNOWN,
    }
}

fn message_of(fields: &Value, is_transaction: bool) -> Result<impl Message, ClientError> {
    let body = STANDARD.decode(text(&fields["body"])).expect("base64");
    let mut builder = MessageBuilder::builder().set_topic(text(&fields["topic"])).set_body(body);
    if let Some(tag) = fields["tag"].as_str() {
        builder = builder.set_tag(tag);
    }
    if fields["keys"].is_array() {
        builder = builder.set_keys(texts(&fields["keys"]));
    }
    if let Some(properties) = fields["properties"].as_object() {
        let pairs = properties.iter().map(|(key, value)| (key.clone(), text(value).to_string()));
        builder = builder.set_properties(pairs.collect::<HashMap<_, _>>());
    }
    if let Some(group) = fields["message_group"].as_str() {
        builder = builder.set_message_group(group);
    }
    if let Some(at_ms) = fields["deliver_at_ms"].as_i64() {
        builder = builder.set_delivery_timestamp(at_ms / 1000); // it takes seconds
    }
    if is_transaction {
        builder = builder.enable_transaction();
    }
    builder.build()
}

/// A message as the test sees it; it has the times to the second only.
fn told(view: &MessageView) -> Value {
    let mut keys = view.keys().to_vec();
    keys.sort();
    json!({
        "message_id": view.message_id(),
        "topic": view.topic(),
        "body": STANDARD.encode(view.body()),
        "tag": view.tag().unwrap_or(""),
        "keys": keys,
        "message_group": view.message_group().unwrap_or(""),
        "properties": view.properties(),
        "attempt": view.delivery_attempt(),
        "born_host": view.born_host(),
        "born_ms": view.born_timestamp() * 1000,
        "deliver_at_ms": view.delivery_timestamp().unwrap_or(0) * 1000,
        "corrupted": false, // it does not compare digests
    })
}

fn told_receipt(message_id: &str, transaction_id: &str) -> Value {
    json!({"message_id": message_id, "transaction_id": transaction_id})
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().expect("a list").iter().map(|each| text(each).to_string()).collect()
}
