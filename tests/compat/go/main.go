// Runs every step of the Go client against the name server in NAMESRV_ADDR. Each prints "ok NAME",
// or "FAIL NAME: why" and ends the program; the suite that starts this asserts the list.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	rmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

var (
	ctx         = context.Background()
	topic       = fmt.Sprintf("Go_%d", time.Now().UnixMilli())
	nameServers []string
)

func fail(step string, why any) {
	fmt.Printf("FAIL %s: %v\n", step, why)
	os.Exit(0)
}

func need(step string, err error) {
	if err != nil {
		fail(step, err)
	}
}

func message(tag, body string) *primitive.Message {
	m := primitive.NewMessage(topic, []byte(body)).WithTag(tag)
	return m.WithKeys([]string{"key-" + body})
}

// subscribe starts a consumer whose messages come through the channel. It gives back each message
// with the tag "retry" once.
func subscribe(group, tags string, ordered bool) chan *primitive.MessageExt {
	inbox := make(chan *primitive.MessageExt, 100)
	c, err := rmq.NewPushConsumer(
		consumer.WithNameServer(nameServers),
		consumer.WithGroupName(topic+group),
		consumer.WithInstance(topic+group),
		consumer.WithConsumerOrder(ordered),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	need("consumer"+group, err)
	selector := consumer.MessageSelector{Type: consumer.TAG, Expression: tags}
	listen := func(_ context.Context, got ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, m := range got {
			if m.GetTags() == "retry" && m.ReconsumeTimes == 0 {
				return consumer.ConsumeRetryLater, nil
			}
			inbox <- m
		}
		return consumer.ConsumeSuccess, nil
	}
	need("consumer"+group, c.Subscribe(topic, selector, listen))
	need("consumer"+group, c.Start())
	return inbox
}

func take(step string, inbox chan *primitive.MessageExt) *primitive.MessageExt {
	select {
	case m := <-inbox:
		return m
	case <-time.After(2 * time.Minute):
		fail(step, "nothing arrives")
		return nil
	}
}

func main() {
	rlog.SetLogLevel("error")
	var err error
	nameServers, err = primitive.NewNamesrvAddr(strings.Split(os.Getenv("NAMESRV_ADDR"), ";")...)
	need("name servers", err)
	p, err := rmq.NewProducer(
		producer.WithNameServer(nameServers),
		producer.WithGroupName(topic+"_producer"),
		producer.WithSendMsgTimeout(20*time.Second),
		producer.WithQueueSelector(producer.NewHashQueueSelector()))
	need("producer", err)
	need("producer", p.Start())

	first := message("first", "hello")
	first.WithProperty("color", "blue")
	sent, err := p.SendSync(ctx, first)
	need("send", err)
	if sent.Status != primitive.SendOK {
		fail("send", sent.Status)
	}
	fmt.Println("ok send")

	inbox := subscribe("_group", "first || delay || retry", false)
	got := take("tag-key-property", inbox)
	if got.GetKeys() != "key-hello" || got.GetProperty("color") != "blue" || string(got.Body) != "hello" {
		fail("tag-key-property", got)
	}
	fmt.Println("ok tag-key-property")

	_, err = p.SendSync(ctx, message("delay", "late").WithDelayTimeLevel(2))
	need("delay", err)
	got = take("delay", inbox)
	if took := got.StoreTimestamp - got.BornTimestamp; string(got.Body) != "late" || took < 4900 {
		fail("delay", fmt.Sprintf("%s after %d ms", got.Body, took))
	}
	fmt.Println("ok delay")

	for i := 0; i < 20; i++ {
		_, err = p.SendSync(ctx, message("ordered", fmt.Sprint(i)).WithShardingKey("one queue"))
		need("ordered", err)
	}
	ordered := subscribe("_ordered", "ordered", true)
	for i := 0; i < 20; i++ {
		if body := string(take("ordered", ordered).Body); body != fmt.Sprint(i) {
			fail("ordered", fmt.Sprintf("%s instead of %d", body, i))
		}
	}
	fmt.Println("ok ordered")

	_, err = p.SendSync(ctx, message("retry", "again"))
	need("retry", err)
	if got = take("retry", inbox); string(got.Body) != "again" || got.ReconsumeTimes != 1 {
		fail("retry", got)
	}
	fmt.Println("ok retry")
}
