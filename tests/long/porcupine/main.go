// Judges histories of one key each with porcupine: one JSON array on each line of the input, one
// verdict (Ok, Illegal or Unknown) on each line of the output.
//
// An operation of a batch comes after the one before it in the batch, although both are open at the
// same time. So the state has, besides the value, the operations that others of their batch follow.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/anishathalye/porcupine"
)

// The kinds of operation and the statuses of the contract.
const (
	create, retrieve, update        = 1, 2, 3
	ok, notFound, alreadyExists, no = 0, 5, 6, -1
)

type event struct {
	Kind   int    `json:"kind"`
	Value  string `json:"value"`
	Status int    `json:"status"`
	Call   int64  `json:"call"`
	Return int64  `json:"return"`
	After  int    `json:"after"`

	number   int
	followed bool
}

type state struct {
	value string // "" is an unknown key, and every value has "=" before it
	done  uint64 // a bit for each operation that is done and has a follower that is not
}

func step(before, input, _ interface{}) (bool, interface{}) {
	now, did := before.(state), input.(event)
	after := now
	if did.After >= 0 {
		if now.done>>did.After&1 == 0 {
			return false, now
		}
		after.done &^= 1 << did.After
	}
	if did.followed {
		after.done |= 1 << did.number
	}
	status, read := ok, now.value
	switch did.Kind {
	case create:
		if now.value == "" {
			after.value = "=" + did.Value
		} else {
			status = alreadyExists
		}
	case retrieve:
		if now.value == "" {
			status = notFound
		}
	case update:
		if now.value == "" {
			status = notFound
		} else {
			after.value = "=" + did.Value
		}
	default:
		after.value = ""
	}
	if did.Status == no { // of unknown effect: its place may be after all others
		return true, after
	}
	if did.Status != status || (did.Kind == retrieve && status == ok && read != "="+did.Value) {
		return false, now
	}
	return true, after
}

func main() {
	model := porcupine.Model{
		Init: func() interface{} { return state{} },
		Step: step,
	}
	lines := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 1 {
			var events []event
			if problem := json.Unmarshal(line, &events); problem != nil {
				fmt.Fprintln(os.Stderr, problem)
				os.Exit(1)
			}
			for number, each := range events {
				events[number].number = number
				if each.After >= 0 {
					events[each.After].followed = true
				}
			}
			var operations []porcupine.Operation
			for number, each := range events {
				operations = append(operations, porcupine.Operation{
					ClientId: number, Input: each, Call: each.Call, Return: each.Return,
				})
			}
			fmt.Println(porcupine.CheckOperationsTimeout(model, operations, time.Minute))
		}
		if err != nil {
			return
		}
	}
}
