// An echo over Go's net/rpc, and a client that keeps a window of calls in flight on one
// connection: the pipeline of the standard library, without batches.
//
//	go_net_rpc serve                      prints its address, serves until its input ends
//	go_net_rpc call ADDRESS WINDOW SECONDS   prints calls answered, seconds, CPU seconds
package main

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net"
	"net/rpc"
	"os"
	"strconv"
	"syscall"
	"time"
)

// Pair is as large as what our batches carry for each operation.
type Pair struct{ Key, Value []byte }

type Echo struct{}

func (Echo) Same(request *Pair, answer *Pair) error {
	*answer = *request
	return nil
}

func cpuSeconds() float64 {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		log.Fatal(err)
	}
	return float64(used.Utime.Nano()+used.Stime.Nano()) / 1e9
}

func serve() {
	if err := rpc.Register(Echo{}); err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr())
	go rpc.Accept(listener)
	io.Copy(io.Discard, os.Stdin)
}

func call(address string, window int, seconds float64) {
	client, err := rpc.Dial("tcp", address)
	if err != nil {
		log.Fatal(err)
	}
	request := &Pair{[]byte("8 bytes!"), []byte("sixteen bytes ..")}
	done := make(chan *rpc.Call, window)
	began := time.Now()
	until := began.Add(time.Duration(seconds * float64(time.Second)))
	open, answered := 0, 0
	for ; open < window; open++ {
		client.Go("Echo.Same", request, &Pair{}, done)
	}
	for open > 0 {
		ended := <-done
		open--
		if ended.Error != nil {
			log.Fatal(ended.Error)
		}
		if !bytes.Equal(ended.Reply.(*Pair).Value, request.Value) {
			log.Fatal("another value came back than was sent")
		}
		answered++
		if time.Now().Before(until) {
			client.Go("Echo.Same", request, &Pair{}, done)
			open++
		}
	}
	fmt.Println(answered, time.Since(began).Seconds(), cpuSeconds())
}

func main() {
	switch {
	case len(os.Args) == 2 && os.Args[1] == "serve":
		serve()
	case len(os.Args) == 5 && os.Args[1] == "call":
		window, err := strconv.Atoi(os.Args[3])
		if err != nil {
			log.Fatal(err)
		}
		seconds, err := strconv.ParseFloat(os.Args[4], 64)
		if err != nil {
			log.Fatal(err)
		}
		call(os.Args[2], window, seconds)
	default:
		log.Fatal("say: serve, or: call ADDRESS WINDOW SECONDS")
	}
}
