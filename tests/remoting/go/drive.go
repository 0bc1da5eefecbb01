// Drives Apache's classic Go client: `drive ADDRESS COMMAND ARGUMENT...`; prints lines for the test.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

const limit = 60 * time.Second

var (
	address primitive.NamesrvAddr
	output  sync.Mutex
	ctx     = context.Background()
)

func main() {
	rlog.SetLogLevel("error")
	address = primitive.NamesrvAddr{os.Args[1]}
	rest := os.Args[3:]
	switch os.Args[2] {
	case "send":
		send(rest[0], number(rest[1]))
	case "batch":
		batch(rest[0], number(rest[1]))
	case "delayed":
		delayed(rest[0])
	case "ordered":
		ordered(rest[0], number(rest[1]))
	case "transactions":
		transactions(rest[0])
	case "push":
		push(rest[0], rest[1], rest[2], number(rest[3]), consumer.WithConsumerOrder(false))
	case "orderly":
		push(rest[0], rest[1], "*", number(rest[2]), consumer.WithConsumerOrder(true))
	case "failing":
		failing(rest[0], rest[1], number(rest[2]))
	case "broadcast":
		broadcast(rest[0], rest[1], number(rest[2]))
	case "pull":
		pull(rest[0], rest[1], number(rest[2]))
	default:
		panic(os.Args[2])
	}
	say("DONE")
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func say(words ...string) {
	output.Lock()
	defer output.Unlock()
	fmt.Println(strings.Join(words, " "))
}

func sent(result *primitive.SendResult, err error) {
	check(err)
	status := "FAILED"
	if result.Status == primitive.SendOK {
		status = "SEND_OK"
	}
	say("SENT", status, result.MsgID)
}

func message(topic, body, tag string) *primitive.Message {
	return primitive.NewMessage(topic, []byte(body)).WithTag(tag)
}

func started(options ...producer.Option) rocketmq.Producer {
	options = append(options, producer.WithNameServer(address), producer.WithGroupName("sender"))
	made, err := rocketmq.NewProducer(options...)
	check(err)
	check(made.Start())
	return made
}

// send sends one third each sync, async and one-way.
func send(topic string, count int) {
	sender := started()
	var waiting sync.WaitGroup
	for n := 0; n < count; n++ {
		tag := []string{"even", "odd"}[n%2]
		each := message(topic, "m"+strconv.Itoa(n), tag)
		each.WithProperty("number", strconv.Itoa(n))
		switch n % 3 {
		case 0:
			sent(sender.SendSync(ctx, each))
		case 1:
			waiting.Add(1)
			check(sender.SendAsync(ctx, func(_ context.Context, result *primitive.SendResult, err error) {
				sent(result, err)
				waiting.Done()
			}, each))
		default:
			check(sender.SendOneWay(ctx, each))
		}
	}
	waiting.Wait()
	check(sender.Shutdown())
}

func batch(topic string, count int) {
	sender := started()
	var messages []*primitive.Message
	for n := 0; n < count; n++ {
		messages = append(messages, message(topic, "b"+strconv.Itoa(n), "batch"))
	}
	sent(sender.SendSync(ctx, messages...))
	check(sender.Shutdown())
}

func delayed(topic string) {
	sender := started()
	sent(sender.SendSync(ctx, message(topic, "level", "d").WithDelayTimeLevel(1)))
	check(sender.Shutdown())
}

func ordered(topic string, count int) {
	sender := started(producer.WithQueueSelector(producer.NewHashQueueSelector()))
	for n := 0; n < count; n++ {
		lane := strconv.Itoa(n % 3)
		sent(sender.SendSync(ctx, message(topic, lane+":"+strconv.Itoa(n), "o").WithShardingKey(lane)))
	}
	check(sender.Shutdown())
}

type decider struct{ checked sync.WaitGroup }

func (d *decider) ExecuteLocalTransaction(each *primitive.Message) primitive.LocalTransactionState {
	return map[string]primitive.LocalTransactionState{
		"commit":   primitive.CommitMessageState,
		"rollback": primitive.RollbackMessageState,
	}[string(each.Body)] // the others: unknown
}

func (d *decider) CheckLocalTransaction(each *primitive.MessageExt) primitive.LocalTransactionState {
	say("CHECKED", string(each.Body))
	defer d.checked.Done()
	if string(each.Body) == "later-commit" {
		return primitive.CommitMessageState
	}
	return primitive.RollbackMessageState
}

func transactions(topic string) {
	listener := &decider{}
	listener.checked.Add(2)
	sender, err := rocketmq.NewTransactionProducer(
		listener, producer.WithNameServer(address), producer.WithGroupName("go-decider"))
	check(err)
	check(sender.Start())
	for _, body := range []string{"commit", "rollback", "later-commit", "later-rollback"} {
		result, err := sender.SendMessageInTransaction(ctx, message(topic, body, "t"))
		check(err)
		sent(result.SendResult, nil)
	}
	listener.checked.Wait()
	time.Sleep(500 * time.Millisecond)
	check(sender.Shutdown())
}

type handler = func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error)

func consuming(group, topic, filter, instance string, handle handler, options ...consumer.Option) rocketmq.PushConsumer {
	options = append(options,
		consumer.WithNameServer(address), consumer.WithGroupName(group), consumer.WithInstance(instance),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	made, err := rocketmq.NewPushConsumer(options...)
	check(err)
	selector := consumer.MessageSelector{Type: consumer.TAG, Expression: filter}
	if text, is := strings.CutPrefix(filter, "SQL:"); is {
		selector = consumer.MessageSelector{Type: consumer.SQL92, Expression: text}
	}
	check(made.Subscribe(topic, selector, handle))
	check(made.Start())
	return made
}

func wait(done *sync.WaitGroup) {
	all := make(chan struct{})
	go func() { done.Wait(); close(all) }()
	select {
	case <-all:
	case <-time.After(limit):
		say("TIMEOUT")
	}
}

func push(group, topic, filter string, count int, order consumer.Option) {
	var left sync.WaitGroup
	left.Add(count)
	taking := consuming(group, topic, filter, group, func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, each := range messages {
			say("GOT", string(each.Body), each.MsgId)
			left.Done()
		}
		return consumer.ConsumeSuccess, nil
	}, order)
	wait(&left)
	check(taking.Shutdown())
}

// failing fails each message the first time, and the one called "hopeless" always.
func failing(group, topic string, count int) {
	var left sync.WaitGroup
	left.Add(count)
	taking := consuming(group, topic, "*", group, func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		result := consumer.ConsumeSuccess
		for _, each := range messages {
			say("GOT", string(each.Body), strconv.Itoa(int(each.ReconsumeTimes)), each.Topic)
			left.Done()
			if string(each.Body) == "hopeless" || each.ReconsumeTimes == 0 {
				result = consumer.ConsumeRetryLater
			}
		}
		return result, nil
	}, consumer.WithMaxReconsumeTimes(1))
	wait(&left)
	time.Sleep(time.Second)
	check(taking.Shutdown())
}

func broadcast(group, topic string, count int) {
	var left sync.WaitGroup
	left.Add(2 * count)
	for _, name := range []string{"c0", "c1"} {
		taking := consuming(group, topic, "*", group+name, func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			for _, each := range messages {
				say("GOT", name, string(each.Body))
				left.Done()
			}
			return consumer.ConsumeSuccess, nil
		}, consumer.WithConsumerModel(consumer.BroadCasting))
		defer taking.Shutdown()
	}
	wait(&left)
}

func pull(group, topic string, count int) {
	taking, err := rocketmq.NewPullConsumer(
		consumer.WithNameServer(address), consumer.WithGroupName(group),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	check(err)
	check(taking.Subscribe(topic, consumer.MessageSelector{Type: consumer.TAG, Expression: "*"}))
	check(taking.Start())
	for end := time.Now().Add(limit); count > 0 && time.Now().Before(end); {
		polled, err := taking.Poll(ctx, time.Second)
		if err != nil {
			continue
		}
		for _, each := range polled.GetMsgList() {
			say("GOT", string(each.Body), each.MsgId)
			count--
		}
		taking.ACK(ctx, polled, consumer.ConsumeSuccess)
	}
	check(taking.Shutdown())
}
