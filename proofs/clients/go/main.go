// A client of the contract in Go: it makes the calls of cases.txtpb and prints a line for each case.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"client/pb"
)

const usualTimeout = 20 * time.Second

// Arguments: the table, three addresses (plain, slow, TLS), the authority's certificate, the token.
func main() {
	if len(os.Args) != 7 {
		fmt.Fprintln(os.Stderr, "usage: client TABLE PLAIN SLOW TLS CA.PEM TOKEN.TXT")
		os.Exit(2)
	}
	table := &pb.Cases{}
	text, err := os.ReadFile(os.Args[1])
	if err == nil {
		err = prototext.Unmarshal(text, table)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "the table cannot be read:", err)
		os.Exit(2)
	}
	failed := false
	for _, each := range table.Cases {
		if err := run(each); err != nil {
			failed = true
			fmt.Printf("FAILED %s: %v\n", each.Name, err)
		} else {
			fmt.Printf("ok %s\n", each.Name)
		}
	}
	if failed {
		os.Exit(1)
	}
}

func run(each *pb.Case) error {
	connection, token, err := connect(each.Connection)
	if err != nil {
		return err
	}
	defer connection.Close()
	for number, step := range each.Steps {
		if err := take(connection, token, prepared(step)); err != nil {
			return fmt.Errorf("step %d: %w", number+1, err)
		}
	}
	return nil
}

func connect(how pb.Connection) (*grpc.ClientConn, string, error) {
	address, trusted, token := os.Args[4], insecure.NewCredentials(), ""
	switch how {
	case pb.Connection_PLAIN:
		address = os.Args[2]
	case pb.Connection_SLOW:
		address = os.Args[3]
	case pb.Connection_PLAIN_TO_TLS:
	case pb.Connection_TLS_OF_AN_UNKNOWN_AUTHORITY:
		trusted = credentials.NewTLS(&tls.Config{})
	default:
		authority, err := os.ReadFile(os.Args[5])
		if err != nil {
			return nil, "", err
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(authority)
		trusted = credentials.NewTLS(&tls.Config{RootCAs: roots})
		if how == pb.Connection_TLS_WITH_TOKEN {
			word, err := os.ReadFile(os.Args[6])
			if err != nil {
				return nil, "", err
			}
			token = "Bearer " + strings.TrimSpace(string(word))
		} else if how == pb.Connection_TLS_WITH_ANOTHER_TOKEN {
			token = "Bearer another-word-of-some-length"
		}
	}
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(trusted))
	return connection, token, err
}

// prepared returns the step with its copies and ids written out.
func prepared(step *pb.Step) *pb.Step {
	large := func(values ...*[]byte) {
		for _, value := range values {
			*value = bytes.Repeat(*value, int(max(1, step.Copies)))
		}
	}
	large(&step.Value)
	switch request := step.Request.(type) {
	case *pb.Step_Create:
		large(&request.Create.Value)
	case *pb.Step_Stream:
		stream, all := request.Stream, &pb.Stream{InOrder: request.Stream.InOrder}
		for more := range uint64(max(1, stream.RepeatedForIds)) {
			for _, each := range stream.Requests {
				each = proto.CloneOf(each)
				each.Id += more
				for n := range each.Values {
					large(&each.Values[n])
				}
				all.Requests = append(all.Requests, each)
			}
			for _, each := range stream.Replies {
				each = proto.CloneOf(each)
				each.Id += more
				for n := range each.Values {
					large(&each.Values[n])
				}
				all.Replies = append(all.Replies, each)
			}
		}
		request.Stream = all
	}
	return step
}

func take(connection *grpc.ClientConn, token string, step *pb.Step) error {
	ends := make(chan error)
	count := int(max(1, step.AtOnce))
	for range count {
		go func() { ends <- call(connection, token, step) }()
	}
	var wrong error
	asExpected := 0
	for range count {
		err := <-ends
		ended := status.Convert(err)
		if ended.Code() == codes.Code(step.Status) && strings.Contains(ended.Message(), step.Detail) {
			asExpected++
		} else if count == 1 || ended.Code() != codes.Code(step.Others) {
			wrong = fmt.Errorf("expected %s %q, got %v", step.Status, step.Detail, ended)
		}
	}
	if count > 1 && step.Others != step.Status && asExpected != 1 && wrong == nil {
		wrong = fmt.Errorf("%d calls ended %s, not one", asExpected, step.Status)
	}
	return wrong
}

// call makes one call and returns its status, or an error that is none.
func call(connection *grpc.ClientConn, token string, step *pb.Step) error {
	timeout := time.Duration(step.TimeoutMs) * time.Millisecond
	if timeout == 0 {
		timeout = usualTimeout
	}
	context, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if step.CancelAfterMs > 0 {
		defer time.AfterFunc(time.Duration(step.CancelAfterMs)*time.Millisecond, cancel).Stop()
	}
	if token != "" {
		context = metadata.AppendToOutgoingContext(context, "authorization", token)
	}
	var options []grpc.CallOption
	if step.Gzip {
		options = append(options, grpc.UseCompressor(gzip.Name))
	}
	stub := pb.NewKeyValueServiceClient(connection)
	var err error
	switch request := step.Request.(type) {
	case *pb.Step_Create:
		_, err = stub.Create(context, request.Create, options...)
	case *pb.Step_Retrieve:
		var reply *pb.RetrieveResponse
		reply, err = stub.Retrieve(context, request.Retrieve, options...)
		if err == nil && !bytes.Equal(reply.Value, step.Value) {
			err = fmt.Errorf("got a value of %d bytes: %.40q", len(reply.Value), reply.Value)
		}
	case *pb.Step_Update:
		_, err = stub.Update(context, request.Update, options...)
	case *pb.Step_Delete:
		_, err = stub.Delete(context, request.Delete, options...)
	case *pb.Step_NotServed:
		_, err = pb.NewNotServedClient(connection).Retrieve(context, request.NotServed)
	case *pb.Step_Stream:
		err = pipeline(context, stub, request.Stream, options)
	default:
		err = errors.New("this step has no request that the client knows")
	}
	return err
}

func pipeline(
	context context.Context, stub pb.KeyValueServiceClient, wanted *pb.Stream, options []grpc.CallOption,
) error {
	stream, err := stub.Pipeline(context, options...)
	if err != nil {
		return err
	}
	for _, each := range wanted.Requests {
		if stream.Send(each) != nil {
			break // Recv has the status
		}
	}
	stream.CloseSend()
	missing := wanted.Replies
	for {
		reply, err := stream.Recv()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		at := 0
		for at < len(missing) && !wanted.InOrder && missing[at].Id != reply.Id {
			at++
		}
		if at >= len(missing) {
			return fmt.Errorf("the reply with id %d was not expected", reply.Id)
		}
		expected := missing[at]
		if strings.Contains(reply.Detail, expected.Detail) {
			reply.Detail = expected.Detail
		}
		if !proto.Equal(reply, expected) {
			return fmt.Errorf("expected the reply %.200v, got %.200v", expected, reply)
		}
		missing = append(missing[:at:at], missing[at+1:]...)
	}
	if len(missing) > 0 {
		return fmt.Errorf("%d replies are missing at the end of the stream", len(missing))
	}
	return nil
}
