'use strict';
// Runs every step of ali-ons against the name server in NAMESRV_ADDR. Each prints "ok NAME", or
// "FAIL NAME: why" and ends the program; the suite that starts this asserts the list and has made
// the topic. This client has no ordered consumer.
const { Producer, Consumer, Message } = require('ali-ons');

const topic = 'NodeSteps';
const run = '_' + Date.now();
const base = {
  nameSrv: process.env.NAMESRV_ADDR,
  onsAddr: undefined,
  httpclient: { request() { throw new Error('no address server is used'); } },
  logger: { info() {}, debug() {}, warn() {}, error: console.error },
};
const inbox = [];

function fail(step, why) {
  console.log(`FAIL ${step}: ${why}`);
  process.exit(0);
}

function expect(step, holds, why) {
  if (!holds) fail(step, why);
}

function message(tag, body) {
  return new Message(topic, tag + run, body);
}

async function take(step, tag) {
  for (let i = 0; i < 2400; i++) {
    const at = inbox.findIndex(got => got.tags === tag + run);
    if (at >= 0) return inbox.splice(at, 1)[0];
    await new Promise(wake => setTimeout(wake, 50));
  }
  return fail(step, 'nothing arrives');
}

async function main() {
  const producer = new Producer({ ...base, producerGroup: 'NodeProducer' + run });
  producer.on('error', error => console.error('producer:', error.message));
  await producer.ready();

  const first = message('first', 'hello');
  first.keys = [ 'key-1', 'key-2' ];
  first.properties.color = 'blue';
  const sent = await producer.send(first);
  expect('send', sent.sendStatus === 'SEND_OK', sent.sendStatus);
  await producer.send(message('other', 'must be filtered'));
  console.log('ok send');

  const consumer = new Consumer({
    ...base,
    consumerGroup: 'NodeConsumer' + run,
    consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET',
  });
  consumer.on('error', error => console.error('consumer:', error.message));
  const tags = [ 'first', 'delay', 'retry', 'parallel' ].map(tag => tag + run).join(' || ');
  consumer.subscribe(topic, tags, async got => {
    if (got.tags === 'retry' + run && got.reconsumeTimes === 0) return Consumer.ACTION_RETRY;
    inbox.push(got);
  });
  await consumer.ready();
  let got = await take('tag-key-property', 'first');
  expect('tag-key-property', got.body.toString() === 'hello', got.body);
  expect('tag-key-property', got.keys === 'key-1 key-2', got.keys);
  expect('tag-key-property', got.properties.color === 'blue', got.properties.color);
  console.log('ok tag-key-property');

  const late = message('delay', 'late');
  late.delayTimeLevel = 2;
  await producer.send(late);
  got = await take('delay', 'delay');
  const took = got.storeTimestamp - got.bornTimestamp;
  expect('delay', took >= 4900, `after ${took} ms`);
  console.log('ok delay');

  const numbers = [ ...Array(100).keys() ];
  await Promise.all(numbers.map(i => producer.send(message('parallel', 'p' + i))));
  const bodies = new Set();
  for (const _ of numbers) bodies.add((await take('parallel', 'parallel')).body.toString());
  expect('parallel', bodies.size === 100, `${bodies.size} of 100`);
  console.log('ok parallel');

  await producer.send(message('retry', 'again'));
  got = await take('retry', 'retry');
  expect('retry', got.reconsumeTimes >= 1, got.reconsumeTimes);
  console.log('ok retry');

  expect('tag-filter', inbox.every(left => left.tags !== 'other' + run), 'other arrived');
  console.log('ok tag-filter');
  await consumer.close();
  await producer.close();
  process.exit(0);
}

main().catch(error => fail('main', error.stack));
