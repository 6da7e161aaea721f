"""Runs every step of Apache's C++ client, through its Python binding, against NAMESRV_ADDR.

Each prints "ok NAME", or "FAIL NAME: why" and ends the program; the suite that starts this asserts
the list. The binding has no transactions.
"""

import os
import queue
import time

from rocketmq.client import Message, Producer, PushConsumer

NAME_SERVER = os.environ["NAMESRV_ADDR"]
TOPIC = "Cpp_%d" % (time.time() * 1000)


def finish():
    os._exit(0)  # the library's threads would hold an ordinary exit


def expect(step, holds, why=""):
    if not holds:
        print("FAIL %s: %s" % (step, why), flush=True)
        finish()


def passed(step):
    print("ok " + step, flush=True)


def message(tag, body, key=None, **properties):
    made = Message(TOPIC)
    made.set_tags(tag)
    made.set_body(body)
    if key:
        made.set_keys(key)
    for name, value in properties.items():
        made.set_property(name, value)
    return made


def consume(group, tags, orderly=False):
    inbox = queue.Queue()

    def on_message(got):
        if got.tags == b"retry" and got.reconsume_times == 0:
            raise RuntimeError("give it back (this traceback is expected)")
        inbox.put((got.tags, got.keys, got.body, got["color"], got.reconsume_times))
        return True

    consumer = PushConsumer(TOPIC + group, orderly=orderly)
    consumer.set_namesrv_addr(NAME_SERVER)
    consumer.set_instance_name(TOPIC + group)
    consumer.subscribe(TOPIC, on_message, tags)
    consumer.start()
    return consumer, inbox


def take(step, inbox):
    try:
        return inbox.get(timeout=120)
    except queue.Empty:
        expect(step, False, "nothing arrives")


producer = Producer(TOPIC + "_producer", timeout=20000)
producer.set_namesrv_addr(NAME_SERVER)
producer.start()
sent = producer.send_sync(message("first", "hello", "key-1", color="blue"))
expect("send", int(sent.status) == 0, sent.status)
passed("send")

BIG = "x" * 100_000  # from 4 KB on the client compresses
producer.send_sync(message("other", "must be filtered"))
producer.send_oneway(message("first", "one-way"))
producer.send_sync(message("big", BIG))
consumer, inbox = consume("_group", "first || delay || big || retry")
got = {one[2]: one for one in [take("one-way-big-filter", inbox) for _ in range(3)]}
expect("one-way-big-filter", set(got) == {BIG.encode(), b"hello", b"one-way"}, list(got)[:3])
passed("one-way-big-filter")
expect("key-property", got[b"hello"][1] == b"key-1" and got[b"hello"][3] == b"blue", got[b"hello"])
passed("key-property")

late = message("delay", "late")
late.set_delay_time_level(2)
start = time.monotonic()
producer.send_sync(late)
expect("delay", take("delay", inbox)[2] == b"late")
expect("delay", time.monotonic() - start > 4.9, time.monotonic() - start)
passed("delay")

for i in range(20):
    producer.send_orderly(message("ordered", str(i)), 7)
ordered, ordered_inbox = consume("_ordered", "ordered", orderly=True)
bodies = [int(take("ordered", ordered_inbox)[2]) for _ in range(20)]
expect("ordered", bodies == list(range(20)), bodies)
passed("ordered")

sent = producer.send_batch([message("batch", "b%d" % i) for i in range(3)])
expect("batch", int(sent.status) == 0, sent.status)
passed("batch")

producer.send_sync(message("retry", "again"))
got = take("retry", inbox)
expect("retry", got[2] == b"again" and got[4] == 1, got)
passed("retry")
finish()
