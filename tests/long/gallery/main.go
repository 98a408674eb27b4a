// Services of grpc-go's example "helloworld", each with a ceiling that is known by construction.
//
//	gallery KIND   prints its address, and serves until standard input ends.
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	pb "google.golang.org/grpc/examples/helloworld/helloworld"
)

type greeter struct {
	pb.UnimplementedGreeterServer
	work func(context.Context) error
}

func (g greeter) SayHello(ctx context.Context, request *pb.HelloRequest) (*pb.HelloReply, error) {
	return &pb.HelloReply{Message: "Hello " + request.GetName()}, g.work(ctx)
}

// pool lets at most `workers` calls work at a time; the others wait in order.
func pool(workers int64, lasts time.Duration) func(context.Context) error {
	free := semaphore.NewWeighted(workers)
	return func(ctx context.Context) error {
		if err := free.Acquire(ctx, 1); err != nil {
			return status.FromContextError(err).Err()
		}
		defer free.Release(1)
		time.Sleep(lasts)
		return nil
	}
}

func shedding(workers int64, lasts time.Duration) func(context.Context) error {
	free := semaphore.NewWeighted(workers)
	return func(context.Context) error {
		if !free.TryAcquire(1) {
			return status.Error(codes.ResourceExhausted, "all workers are busy")
		}
		defer free.Release(1)
		time.Sleep(lasts)
		return nil
	}
}

func sleeping(lasts time.Duration) func(context.Context) error {
	return func(context.Context) error { time.Sleep(lasts); return nil }
}

func limited(perSecond rate.Limit) func(context.Context) error {
	limiter := rate.NewLimiter(perSecond, 1)
	return func(ctx context.Context) error { return limiter.Wait(ctx) }
}

func dying(calls int64, work func(context.Context) error) func(context.Context) error {
	var answered atomic.Int64
	return func(ctx context.Context) error {
		if answered.Add(1) > calls {
			os.Exit(0)
		}
		return work(ctx)
	}
}

func refusing(context.Context) error { return status.Error(codes.PermissionDenied, "not for you") }

func endless(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }

// garbled answers each hello with bytes that are no message of protobuf.
type garbled struct{ encoding.CodecV2 }

func (g garbled) Marshal(value any) (mem.BufferSlice, error) {
	if _, is := value.(*pb.HelloReply); is {
		return mem.BufferSlice{mem.SliceBuffer{0xff, 0xff, 0xff}}, nil
	}
	return g.CodecV2.Marshal(value)
}

// late is a listener whose connections are silent for two seconds at first.
type late struct{ net.Listener }

type silent struct {
	net.Conn
	until time.Time
}

func (l late) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return &silent{conn, time.Now().Add(2 * time.Second)}, err
}

func (s *silent) Read(into []byte) (int, error) {
	time.Sleep(time.Until(s.until))
	return s.Conn.Read(into)
}

func (s *silent) Write(from []byte) (int, error) {
	time.Sleep(time.Until(s.until))
	return s.Conn.Write(from)
}

func main() {
	const lasts = 50 * time.Millisecond
	kind, work, options := os.Args[1], pool(4, lasts), []grpc.ServerOption{}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	address := listener.Addr()
	switch kind {
	case "pool", "undescribed":
	case "sleep":
		work = sleeping(2 * lasts)
	case "lock":
		work = pool(1, lasts/2)
	case "limiter":
		work = limited(40)
	case "shed":
		work = shedding(4, lasts)
	case "streams":
		work, options = sleeping(lasts), append(options, grpc.MaxConcurrentStreams(4))
	case "ages":
		age := keepalive.ServerParameters{MaxConnectionAge: time.Second, MaxConnectionAgeGrace: 9 * time.Second}
		options = append(options, grpc.KeepaliveParams(age))
	case "garbled":
		options = append(options, grpc.ForceServerCodecV2(garbled{encoding.GetCodecV2("proto")}))
	case "late":
		listener = late{listener}
	case "dies":
		work = dying(100, work)
	case "refuses":
		work = refusing
	case "endless":
		work = endless
	default:
		panic(kind)
	}
	server := grpc.NewServer(options...)
	pb.RegisterGreeterServer(server, greeter{work: work})
	if kind != "undescribed" {
		reflection.Register(server)
	}
	go func() { panic(server.Serve(listener)) }()
	fmt.Println(address)
	_, _ = io.Copy(io.Discard, os.Stdin)
}
