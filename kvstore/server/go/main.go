// The key-value service of proto/kvstore/v1 in Go: the same contract, another language.
//
// `launch.py` builds it and runs it. The first line it prints is its address. It ends when its
// standard input ends, or when a line of it says "stop".
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"go_server/pb"
)

const (
	create   = byte(pb.OperationKind_OPERATION_KIND_CREATE)
	retrieve = byte(pb.OperationKind_OPERATION_KIND_RETRIEVE)
	update   = byte(pb.OperationKind_OPERATION_KIND_UPDATE)
	remove   = byte(pb.OperationKind_OPERATION_KIND_DELETE)

	messageLimitBytes = 4 << 20
	// Limit on the requests of one stream that are not answered yet: then it reads no more.
	openRequests = 16384
)

var (
	kinds   = []string{"batch", "create", "retrieve", "update", "delete"}
	details = map[codes.Code]string{
		codes.AlreadyExists:     "the key is known already: update replaces its value",
		codes.NotFound:          "the key is not known: create it first",
		codes.InvalidArgument:   "every operation needs a known kind and a key of at least one byte",
		codes.ResourceExhausted: "the values read exceed gRPC's limit for one message",
	}
	names = map[codes.Code]string{
		codes.OK: "OK", codes.AlreadyExists: "ALREADY_EXISTS", codes.NotFound: "NOT_FOUND",
		codes.InvalidArgument: "INVALID_ARGUMENT", codes.ResourceExhausted: "RESOURCE_EXHAUSTED",
	}
)

// Settings are those of the Python server that this one understands.
type Settings struct {
	ReadDelayS   float64 `json:"read_delay_s"`
	WriteDelayS  float64 `json:"write_delay_s"`
	Locking      string  `json:"locking"`
	StationTimes bool    `json:"station_times"`
}

// clock adds up the time of one request at each station, in seconds.
type clock struct {
	began        time.Time
	lockS, diskS float64
}

func (c *clock) times() *pb.StationTimes {
	rest := time.Since(c.began).Seconds() - c.lockS - c.diskS
	return &pb.StationTimes{LockS: c.lockS, DiskS: c.diskS, RestS: rest}
}

type server struct {
	pb.UnimplementedKeyValueServiceServer
	pb.UnimplementedServerStatusServiceServer
	settings     Settings
	settingsJSON string
	identity     string

	global  sync.Mutex // the one lock, held through the disk time
	entries sync.RWMutex
	values  map[string][]byte

	counting sync.Mutex
	counts   map[string]uint64
}

func (s *server) apply(kind byte, key, value []byte, c *clock) (codes.Code, []byte) {
	delayS := s.settings.WriteDelayS
	if kind == retrieve {
		delayS = s.settings.ReadDelayS
	}
	if s.settings.Locking == "global" {
		asked := time.Now()
		s.global.Lock()
		defer s.global.Unlock()
		c.lockS += time.Since(asked).Seconds()
	}
	if delayS > 0 {
		asked := time.Now()
		time.Sleep(time.Duration(delayS * float64(time.Second)))
		c.diskS += time.Since(asked).Seconds()
	}
	return s.change(kind, key, value)
}

func (s *server) change(kind byte, key, value []byte) (codes.Code, []byte) {
	if len(key) == 0 || kind < create || kind > remove {
		return codes.InvalidArgument, nil
	}
	if kind == retrieve {
		s.entries.RLock()
		found, known := s.values[string(key)]
		s.entries.RUnlock()
		if !known {
			return codes.NotFound, nil
		}
		return codes.OK, found
	}
	s.entries.Lock()
	defer s.entries.Unlock()
	_, known := s.values[string(key)]
	switch {
	case kind == create && known:
		return codes.AlreadyExists, nil
	case kind == update && !known:
		return codes.NotFound, nil
	case kind == remove:
		delete(s.values, string(key))
	default:
		s.values[string(key)] = value
	}
	return codes.OK, nil
}

func (s *server) count(kind byte, code codes.Code, times uint64) {
	name := fmt.Sprintf("kind %d", kind)
	if int(kind) < len(kinds) {
		name = kinds[kind]
	}
	s.counting.Lock()
	s.counts[name+"/"+names[code]] += times
	s.counting.Unlock()
}

// unary executes one operation; its status is that of the call.
func (s *server) unary(ctx context.Context, kind byte, key, value []byte) ([]byte, error) {
	c := &clock{began: time.Now()}
	code, found := s.apply(kind, key, value, c)
	s.count(kind, code, 1)
	if s.settings.StationTimes {
		t := c.times()
		header := fmt.Sprintf("pool;dur=0.0000, lock;dur=%.4f, disk;dur=%.4f, rest;dur=%.4f",
			1e3*t.LockS, 1e3*t.DiskS, 1e3*t.RestS)
		if err := grpc.SetTrailer(ctx, metadata.Pairs("server-timing", header)); err != nil {
			return nil, err
		}
	}
	if code != codes.OK {
		return nil, status.Error(code, details[code])
	}
	return found, nil
}

func (s *server) Create(ctx context.Context, r *pb.CreateRequest) (*pb.CreateResponse, error) {
	_, err := s.unary(ctx, create, r.Key, r.Value)
	return &pb.CreateResponse{}, err
}

func (s *server) Retrieve(ctx context.Context, r *pb.RetrieveRequest) (*pb.RetrieveResponse, error) {
	found, err := s.unary(ctx, retrieve, r.Key, nil)
	return &pb.RetrieveResponse{Value: found}, err
}

func (s *server) Update(ctx context.Context, r *pb.UpdateRequest) (*pb.UpdateResponse, error) {
	_, err := s.unary(ctx, update, r.Key, r.Value)
	return &pb.UpdateResponse{}, err
}

func (s *server) Delete(ctx context.Context, r *pb.DeleteRequest) (*pb.DeleteResponse, error) {
	_, err := s.unary(ctx, remove, r.Key, nil)
	return &pb.DeleteResponse{}, err
}

// Pipeline answers each request as its operations finish; without a disk time, in their order.
func (s *server) Pipeline(stream pb.KeyValueService_PipelineServer) error {
	atOnce := s.settings.ReadDelayS == 0 && s.settings.WriteDelayS == 0
	open := make(chan struct{}, openRequests)
	var sending sync.Mutex
	var working sync.WaitGroup
	defer working.Wait()
	for {
		request, err := stream.Recv()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if atOnce {
			if err := stream.Send(s.answer(request)); err != nil {
				return err
			}
			continue
		}
		open <- struct{}{}
		working.Add(1)
		go func() {
			defer working.Done()
			reply := s.answer(request)
			sending.Lock()
			defer sending.Unlock()
			_ = stream.Send(reply) // the client may have gone; Recv reports it
			<-open
		}()
	}
}

// answer executes the operations of one stream request, one after the other.
func (s *server) answer(request *pb.PipelineRequest) *pb.PipelineResponse {
	c := &clock{began: time.Now()}
	reply := &pb.PipelineResponse{Id: request.Id}
	if problem := problemOf(request); problem != "" {
		count := max(1, len(request.Kinds), len(request.Keys))
		reply.Statuses = []byte(strings.Repeat(string(rune(codes.InvalidArgument)), count))
		reply.Detail = problem
		return reply
	}
	reply.Statuses = make([]byte, len(request.Kinds))
	counted := map[[2]byte]uint64{}
	next, replyBytes := 0, len(request.Kinds)+256
	for place, kind := range request.Kinds {
		var value []byte
		if kind == create || kind == update {
			value = request.Values[next]
			next++
		}
		code, found := s.apply(kind, request.Keys[place], value, c)
		if kind == retrieve && code == codes.OK {
			replyBytes += len(found) + 5
			if replyBytes > messageLimitBytes {
				code = codes.ResourceExhausted
			} else {
				reply.Values = append(reply.Values, found)
			}
		}
		if code != codes.OK && reply.Detail == "" {
			reply.Detail = details[code]
		}
		reply.Statuses[place] = byte(code)
		counted[[2]byte{kind, byte(code)}]++
	}
	for each, times := range counted {
		s.count(each[0], codes.Code(each[1]), times)
	}
	if s.settings.StationTimes {
		reply.StationTimes = c.times()
	}
	return reply
}

func problemOf(request *pb.PipelineRequest) string {
	carried := 0
	for _, kind := range request.Kinds {
		if kind == create || kind == update {
			carried++
		}
	}
	switch {
	case len(request.Kinds) == 0:
		return "kinds is empty: a request carries at least one operation"
	case len(request.Keys) != len(request.Kinds):
		return fmt.Sprintf("%d kinds but %d keys: one key for each operation",
			len(request.Kinds), len(request.Keys))
	case len(request.Values) != carried:
		return fmt.Sprintf("%d creates and updates but %d values: one value for each of them",
			carried, len(request.Values))
	}
	return ""
}

func (s *server) GetServerStatus(
	ctx context.Context, _ *pb.GetServerStatusRequest,
) (*pb.GetServerStatusResponse, error) {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return nil, err
	}
	host, _ := os.Hostname()
	reply := &pb.GetServerStatusResponse{
		Identity: s.identity, HostName: host, ProcessId: uint32(os.Getpid()),
		SettingsJson: s.settingsJSON, Operations: map[string]uint64{},
		CpuUserS:   time.Duration(used.Utime.Nano()).Seconds(),
		CpuSystemS: time.Duration(used.Stime.Nano()).Seconds(),
		Versions:   map[string]string{"grpc-go": grpc.Version, "go": runtime.Version()},
	}
	if from, known := peer.FromContext(ctx); known {
		reply.Peer = "ipv4:" + from.Addr.String()
	}
	s.counting.Lock()
	defer s.counting.Unlock()
	for name, times := range s.counts {
		reply.Operations[name] = times
	}
	return reply, nil
}

func main() {
	settings := flag.String("settings", "{}", "JSON with the settings")
	identity := flag.String("identity", "", "a word that GetServerStatus reports")
	flag.Parse()
	kv := &server{
		settingsJSON: *settings, identity: *identity,
		values: map[string][]byte{}, counts: map[string]uint64{},
	}
	if err := json.Unmarshal([]byte(*settings), &kv.settings); err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	answering := grpc.NewServer()
	pb.RegisterKeyValueServiceServer(answering, kv)
	pb.RegisterServerStatusServiceServer(answering, kv)
	go func() {
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() && lines.Text() != "stop" {
		}
		os.Exit(0)
	}()
	fmt.Println(listener.Addr())
	log.Fatal(answering.Serve(listener))
}
