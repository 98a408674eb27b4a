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
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
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

func main() {
	const lasts = 50 * time.Millisecond
	kind, work, options := os.Args[1], pool(4, lasts), []grpc.ServerOption{}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	switch kind {
	case "pool":
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
	default:
		panic(kind)
	}
	server := grpc.NewServer(options...)
	pb.RegisterGreeterServer(server, greeter{work: work})
	reflection.Register(server)
	go func() { panic(server.Serve(listener)) }()
	fmt.Println(listener.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
}
