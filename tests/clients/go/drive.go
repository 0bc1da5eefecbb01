// Drives Apache RocketMQ's official Go client, unmodified, as a test says: the same commands and
// answers as drive.py has.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strings"
	"sync"
	"time"

	mq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
)

type options struct {
	TLS       bool   `json:"tls"`
	AccessKey string `json:"access_key"`
	SecretKey string `json:"secret_key"`
	TimeoutS  int    `json:"timeout_s"`
}

type fields struct {
	Topic        string            `json:"topic"`
	Body         []byte            `json:"body"`
	Tag          *string           `json:"tag"`
	Keys         []string          `json:"keys"`
	MessageGroup *string           `json:"message_group"`
	Properties   map[string]string `json:"properties"`
	Priority     *int32            `json:"priority"`
	DeliverAtMs  int64             `json:"deliver_at_ms"`
}

type command struct {
	ID            int               `json:"id"`
	Do            string            `json:"do"`
	Name          string            `json:"name"`
	Group         string            `json:"group"`
	Topics        []string          `json:"topics"`
	Checks        map[string]string `json:"checks"`
	Subscriptions map[string]string `json:"subscriptions"`
	WaitS         int               `json:"wait_s"`
	Fails         map[string]int    `json:"fails"`
	SlowS         float64           `json:"slow_s"`
	Message       json.RawMessage   `json:"message"`
	Transaction   string            `json:"transaction"`
	Topic         string            `json:"topic"`
	Handle        string            `json:"handle"`
	Max           int32             `json:"max"`
	InvisibleS    int               `json:"invisible_s"`
}

type object = map[string]any

type stopper interface{ GracefulStop() error }

var (
	address string
	given   options
	guard   sync.Mutex // of the maps
	clients = map[string]stopper{}
	held    = map[string]*mq.MessageView{} // by the receipt handle that they came with
	writing sync.Mutex
)

func main() {
	address = os.Args[1]
	if err := json.Unmarshal([]byte(os.Args[2]), &given); err != nil {
		panic(err)
	}
	mq.EnableSsl = given.TLS
	if given.TimeoutS == 0 {
		given.TimeoutS = 10
	}
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var each command
		if err := json.Unmarshal(line, &each); err != nil {
			panic(err)
		}
		go answer(each)
	}
}

func say(line object) {
	data, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	writing.Lock()
	defer writing.Unlock()
	os.Stdout.Write(append(data, '\n'))
}

func answer(given command) {
	found, err := done(given)
	if err == nil {
		say(object{"id": given.ID, "ok": found})
		return
	}
	var code any
	if status, ok := mq.AsErrRpcStatus(err); ok {
		code = status.GetCode()
	}
	kind := strings.TrimPrefix(fmt.Sprintf("%T", err), "*")
	say(object{"id": given.ID, "error": object{"type": kind, "code": code, "text": err.Error()}})
}

func done(given command) (any, error) {
	switch given.Do {
	case "producer":
		return nil, producer(given)
	case "simple":
		return nil, simple(given)
	case "push":
		return nil, push(given)
	case "send":
		return send(given)
	case "recall":
		return client[mq.Producer](given.Name).Recall(context.Background(), given.Topic, given.Handle)
	case "receive":
		return receive(given)
	case "ack":
		return nil, ack(given)
	case "change":
		return change(given)
	case "shutdown":
		guard.Lock()
		found := clients[given.Name]
		delete(clients, given.Name)
		guard.Unlock()
		return nil, found.GracefulStop()
	}
	return nil, errors.New("unknown command " + given.Do)
}

func client[T stopper](name string) T {
	guard.Lock()
	defer guard.Unlock()
	return clients[name].(T)
}

func keep(name string, found stopper) {
	guard.Lock()
	defer guard.Unlock()
	clients[name] = found
}

func configuration(group string) *mq.Config {
	return &mq.Config{
		Endpoint:      address,
		ConsumerGroup: group,
		Credentials: &credentials.SessionCredentials{
			AccessKey: given.AccessKey, AccessSecret: given.SecretKey,
		},
	}
}

func producer(given command) error {
	chosen := []mq.ProducerOption{mq.WithTopics(given.Topics...)}
	if given.Checks != nil {
		check := func(view *mq.MessageView) mq.TransactionResolution {
			return checked(given, view)
		}
		chosen = append(chosen, mq.WithTransactionChecker(&mq.TransactionChecker{Check: check}))
	}
	found, err := mq.NewProducer(configuration(""), chosen...)
	if err != nil {
		return err
	}
	found.SetRequestTimeout(timeout())
	if err := found.Start(); err != nil {
		return err
	}
	keep(given.Name, found)
	return nil
}

func timeout() time.Duration {
	return time.Duration(given.TimeoutS) * time.Second
}

func checked(given command, view *mq.MessageView) mq.TransactionResolution {
	answer, ok := given.Checks[string(view.GetBody())]
	if !ok {
		answer = "unknown"
	}
	say(object{"event": "check", "client": given.Name, "message": told(view), "answer": answer})
	switch answer {
	case "commit":
		return mq.COMMIT
	case "rollback":
		return mq.ROLLBACK
	}
	return mq.UNKNOWN
}

func filters(subscriptions map[string]string) map[string]*mq.FilterExpression {
	found := map[string]*mq.FilterExpression{}
	for topic, text := range subscriptions {
		if sql, ok := strings.CutPrefix(text, "SQL: "); ok {
			found[topic] = mq.NewFilterExpressionWithType(sql, mq.SQL92)
		} else {
			found[topic] = mq.NewFilterExpression(text)
		}
	}
	return found
}

func simple(given command) error {
	found, err := mq.NewSimpleConsumer(
		configuration(given.Group),
		mq.WithSimpleAwaitDuration(time.Duration(given.WaitS)*time.Second),
		mq.WithSimpleSubscriptionExpressions(filters(given.Subscriptions)),
	)
	if err != nil {
		return err
	}
	if err := found.Start(); err != nil {
		return err
	}
	keep(given.Name, found)
	return nil
}

func push(given command) error {
	var lock sync.Mutex
	consume := func(view *mq.MessageView) mq.ConsumerResult {
		body := string(view.GetBody())
		lock.Lock()
		left := given.Fails[body]
		given.Fails[body] = left - 1
		lock.Unlock()
		now := float64(time.Now().UnixMicro()) / 1e6
		say(object{"event": "message", "client": given.Name, "message": told(view), "at_s": now})
		time.Sleep(time.Duration(given.SlowS * float64(time.Second)))
		if left > 0 {
			return mq.FAILURE
		}
		return mq.SUCCESS
	}
	found, err := mq.NewPushConsumer(
		configuration(given.Group),
		mq.WithPushSubscriptionExpressions(filters(given.Subscriptions)),
		mq.WithPushMessageListener(&mq.FuncMessageListener{Consume: consume}),
	)
	if err != nil {
		return err
	}
	if err := found.Start(); err != nil {
		return err
	}
	keep(given.Name, found)
	return nil
}

func messageOf(raw json.RawMessage) (*mq.Message, error) {
	var given fields
	if err := json.Unmarshal(raw, &given); err != nil {
		return nil, err
	}
	message := &mq.Message{Topic: given.Topic, Body: given.Body}
	if given.Tag != nil {
		message.SetTag(*given.Tag)
	}
	if given.Keys != nil {
		message.SetKeys(given.Keys...)
	}
	for name, value := range given.Properties {
		message.AddProperty(name, value)
	}
	if given.MessageGroup != nil {
		message.SetMessageGroup(*given.MessageGroup)
	}
	if given.DeliverAtMs != 0 {
		message.SetDelayTimestamp(time.UnixMilli(given.DeliverAtMs))
	}
	if given.Priority != nil {
		return message, message.SetPriority(*given.Priority)
	}
	return message, nil
}

func send(given command) (any, error) {
	message, err := messageOf(given.Message)
	if err != nil {
		return nil, err
	}
	found := client[mq.Producer](given.Name)
	var receipts []*mq.SendReceipt
	if given.Transaction == "" {
		receipts, err = found.Send(context.Background(), message)
	} else {
		begun := found.BeginTransaction()
		receipts, err = found.SendWithTransaction(context.Background(), message, begun)
		if err == nil && given.Transaction == "commit" {
			err = begun.Commit()
		} else if err == nil && given.Transaction == "rollback" {
			err = begun.RollBack()
		}
	}
	if err != nil {
		return nil, err
	}
	return object{
		"message_id":     receipts[0].MessageID,
		"transaction_id": receipts[0].TransactionId,
		"offset":         receipts[0].Offset,
		"recall_handle":  receipts[0].RecallHandle,
	}, nil
}

func receive(given command) (any, error) {
	found, err := client[mq.SimpleConsumer](given.Name).Receive(
		context.Background(), given.Max, time.Duration(given.InvisibleS)*time.Second,
	)
	if status, ok := mq.AsErrRpcStatus(err); ok && status.GetCode() == messageNotFound {
		return []object{}, nil // to this client an empty receive is an error
	}
	if err != nil {
		return nil, err
	}
	messages := []object{}
	for _, view := range found {
		guard.Lock()
		held[view.ReceiptHandle] = view
		guard.Unlock()
		messages = append(messages, told(view))
	}
	return messages, nil
}

const messageNotFound = 40401

func ack(given command) error {
	guard.Lock()
	message := *held[given.Handle]
	guard.Unlock()
	// The client acknowledges by the handle that the message has; this may be an older one.
	message.ReceiptHandle = given.Handle
	return client[mq.SimpleConsumer](given.Name).Ack(context.Background(), &message)
}

func change(given command) (any, error) {
	guard.Lock()
	message := held[given.Handle]
	guard.Unlock()
	err := client[mq.SimpleConsumer](given.Name).ChangeInvisibleDuration(
		message, time.Duration(given.InvisibleS)*time.Second,
	)
	if err != nil {
		return nil, err
	}
	guard.Lock()
	defer guard.Unlock()
	held[message.ReceiptHandle] = message
	return message.ReceiptHandle, nil
}

// told is a message as the test sees it.
func told(view *mq.MessageView) object {
	keys := append([]string{}, view.GetKeys()...)
	sort.Strings(keys)
	return object{
		"message_id":    view.GetMessageId(),
		"topic":         view.GetTopic(),
		"body":          view.GetBody(),
		"tag":           value(view.GetTag()),
		"keys":          keys,
		"message_group": value(view.GetMessageGroup()),
		"properties":    view.GetProperties(),
		"attempt":       view.GetDeliveryAttempt(),
		"born_host":     value(view.GetBornHost()),
		"born_ms":       milliseconds(view.GetBornTimestamp()),
		"deliver_at_ms": milliseconds(view.GetDeliveryTimestamp()),
		"handle":        view.ReceiptHandle,
		// The client knows it, and tells nobody.
		"corrupted": reflect.ValueOf(view).Elem().FieldByName("corrupted").Bool(),
	}
}

func value(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

func milliseconds(when *time.Time) int64 {
	if when == nil {
		return 0
	}
	return when.UnixMilli()
}
