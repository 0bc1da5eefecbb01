// Drives npm's `ali-ons`: `node drive.js ADDRESS COMMAND ARGUMENT...`; prints lines for the test.
"use strict";

const { Consumer, Message, Producer } = require("ali-ons");

const LIMIT_MS = 60_000;
const quiet = { debug() {}, info() {}, warn() {}, error: console.error };
const [nameSrv, command, ...rest] = process.argv.slice(2);
const options = { nameSrv, httpclient: {}, logger: quiet, clientIP: "127.0.0.1" };
const say = (...words) => console.log(words.join(" "));

async function withProducer(work) {
  const producer = new Producer({ ...options, producerGroup: "sender" });
  await producer.ready();
  await work(async (message) => {
    const result = await producer.send(message);
    say("SENT", result.sendStatus, result.msgId);
  });
}

// Consume until `count` messages came; `act` says what is done with each, and what is printed.
async function consume(group, topic, filter, count, act, more = {}) {
  const left = { count };
  const consumer = new Consumer({ ...options, consumerGroup: group, consumeFromWhere: "CONSUME_FROM_FIRST_OFFSET", ...more });
  consumer.on("error", (error) => console.error(error));
  const expression = filter.startsWith("SQL:") ? { expressionType: "SQL92", subString: filter.slice(4) } : filter;
  await new Promise((resolve) => {
    setTimeout(resolve, LIMIT_MS).unref();
    consumer.subscribe(topic, expression, async (message) => {
      left.count -= 1;
      if (left.count <= 0) setTimeout(resolve, 300);
      return act(message, message.body.toString());
    });
  });
  await consumer.close();
}

const commands = {
  send: (topic, count) =>
    withProducer(async (send) => {
      for (let n = 0; n < Number(count); n++) {
        const message = new Message(topic, n % 2 ? "odd" : "even", `m${n}`);
        message.properties.number = String(n);
        await send(message);
      }
    }),
  delayed: (topic) =>
    withProducer(async (send) => {
      const message = new Message(topic, "d", "level");
      message.delayTimeLevel = 1;
      await send(message);
    }),
  ordered: (topic, count) =>
    withProducer(async (send) => {
      for (let n = 0; n < Number(count); n++) {
        const message = new Message(topic, "o", `${n % 3}:${n}`);
        message.shardingKey = `k${n % 3}`; // the client takes a key that falls to queue 0 for none
        await send(message);
      }
    }),
  push: (group, topic, filter, count) =>
    consume(group, topic, filter, Number(count), (message, body) => say("GOT", body, message.msgId)),
  // One at a time within a queue is this client's way without parallelConsumeLimit.
  orderly: (group, topic, count) => consume(group, topic, "*", Number(count), (_, body) => say("GOT", body)),
  failing: (group, topic, count) =>
    consume(
      group,
      topic,
      "*",
      Number(count),
      (message, body) => {
        say("GOT", body, message.reconsumeTimes, message.topic);
        // What a listener returns counts at the first attempt only, an error at each.
        if (body === "hopeless" || message.reconsumeTimes === 0) throw new Error("not this time");
      },
      { maxReconsumeTimes: 1 },
    ),
  broadcast: (group, topic, count) =>
    Promise.all(
      ["c0", "c1"].map((name) =>
        consume(group, topic, "*", Number(count), (_, body) => say("GOT", name, body), {
          isBroadcast: true,
          instanceName: name,
        }),
      ),
    ),
};

commands[command](...rest).then(
  () => {
    say("DONE");
    process.exit(0); // the client's timers would keep the process alive
  },
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
