// Drives Apache RocketMQ's official Node.js client, unmodified, as a test says: the same commands
// and answers as drive.py has. `node drive.js ADDRESS OPTIONS`.

const readline = require('node:readline');
const { setTimeout: sleep } = require('node:timers/promises');
const {
  ConsumeResult, FilterExpression, Producer, PushConsumer, SimpleConsumer,
} = require('rocketmq-client-nodejs');
const {
  FilterType, TransactionResolution,
} = require('rocketmq-client-nodejs/proto/apache/rocketmq/v2/definition_pb');

const [address, given] = process.argv.slice(2);
const options = JSON.parse(given);
const common = {
  endpoints: address,
  namespace: options.namespace ?? '',
  sslEnabled: Boolean(options.tls),
  requestTimeout: (options.timeout_s ?? 10) * 1000,
};
if (options.access_key) {
  common.sessionCredentials = { accessKey: options.access_key, accessSecret: options.secret_key };
}

const clients = new Map();
const held = new Map(); // messages by the receipt handle that they came with

function say(line) {
  process.stdout.write(JSON.stringify(line) + '\n');
}

function told(message) {
  return {
    message_id: message.messageId,
    topic: message.topic,
    body: message.body.toString('base64'),
    tag: message.tag ?? '',
    keys: [...message.keys].sort(),
    message_group: message.messageGroup ?? '',
    properties: Object.fromEntries(message.properties),
    attempt: message.deliveryAttempt,
    born_host: message.bornHost,
    born_ms: message.bornTimestamp?.getTime() ?? 0,
    deliver_at_ms: message.deliveryTimestamp?.getTime() ?? 0,
    priority: message.priority,
    handle: message.receiptHandle,
    corrupted: Boolean(message.corrupted),
  };
}

function filters(subscriptions) {
  return new Map(Object.entries(subscriptions).map(([topic, text]) => [
    topic,
    text.startsWith('SQL: ')
      ? new FilterExpression(text.slice(5), FilterType.SQL) : new FilterExpression(text),
  ]));
}

const RESOLUTIONS = {
  commit: TransactionResolution.COMMIT,
  rollback: TransactionResolution.ROLLBACK,
};

const commands = {
  async producer({ name, topics, checks }) {
    const checker = checks && {
      async check(message) {
        const answer = checks[message.body.toString()] ?? 'unknown';
        say({ event: 'check', client: name, message: told(message), answer });
        return RESOLUTIONS[answer] ?? TransactionResolution.TRANSACTION_RESOLUTION_UNSPECIFIED;
      },
    };
    clients.set(name, new Producer({ ...common, topics, checker }));
    await clients.get(name).startup();
  },

  async simple({ name, group, subscriptions, wait_s }) {
    clients.set(name, new SimpleConsumer({
      ...common,
      consumerGroup: group,
      subscriptions: filters(subscriptions),
      awaitDuration: wait_s * 1000,
    }));
    await clients.get(name).startup();
  },

  async push({ name, group, subscriptions, fails, slow_s }) {
    const messageListener = {
      async consume(message) {
        const body = message.body.toString();
        const left = fails[body] ?? 0;
        fails[body] = left - 1;
        say({ event: 'message', client: name, message: told(message), at_s: Date.now() / 1000 });
        await sleep(slow_s * 1000);
        return left > 0 ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
      },
    };
    clients.set(name, new PushConsumer({
      ...common, consumerGroup: group, subscriptions: filters(subscriptions), messageListener,
    }));
    await clients.get(name).startup();
  },

  async send({ name, message, transaction }) {
    const producer = clients.get(name);
    const begun = transaction ? producer.beginTransaction() : undefined;
    const sent = {
      topic: message.topic,
      body: Buffer.from(message.body, 'base64'),
      tag: message.tag,
      keys: message.keys,
      messageGroup: message.message_group,
      priority: message.priority,
      properties: message.properties && new Map(Object.entries(message.properties)),
    };
    if (message.deliver_at_ms) sent.deliveryTimestamp = new Date(message.deliver_at_ms);
    const receipt = await producer.send(sent, begun);
    if (transaction === 'commit') await begun.commit();
    if (transaction === 'rollback') await begun.rollback();
    return {
      message_id: receipt.messageId,
      transaction_id: receipt.transactionId,
      offset: receipt.offset,
      recall_handle: receipt.recallHandle,
    };
  },

  async recall({ name, topic, handle }) {
    return (await clients.get(name).recallMessage(topic, handle)).messageId;
  },

  async receive({ name, max, invisible_s }) {
    const found = await clients.get(name).receive(max, invisible_s * 1000);
    for (const message of found) held.set(message.receiptHandle, message);
    return found.map(told);
  },

  async ack({ name, handle }) {
    // The client acknowledges by the handle that the message has; this may be an older one.
    const message = held.get(handle);
    await clients.get(name).ack(Object.assign(Object.create(message), { receiptHandle: handle }));
  },

  async change({ name, handle, invisible_s }) {
    const message = held.get(handle);
    await clients.get(name).changeInvisibleDuration(message, invisible_s * 1000);
    held.set(message.receiptHandle, message);
    return message.receiptHandle;
  },

  async shutdown({ name }) {
    const client = clients.get(name);
    clients.delete(name);
    await client.shutdown();
  },
};

async function answer({ id, do: what, ...rest }) {
  try {
    say({ id, ok: (await commands[what](rest)) ?? null });
  } catch (error) {
    say({ id, error: { type: error.name, code: error.code ?? null, text: String(error.message) } });
  }
}

readline.createInterface({ input: process.stdin })
  .on('line', (line) => answer(JSON.parse(line)))
  .on('close', () => process.exit(0));
