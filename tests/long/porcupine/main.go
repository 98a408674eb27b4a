// Judges histories of one key each with porcupine: one JSON array on each line of the input, one
// verdict (Ok, Illegal or Unknown) on each line of the output.
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
	create, retrieve, update             = 1, 2, 3
	ok, notFound, alreadyExists, unknown = 0, 5, 6, -1
)

type event struct {
	Kind   int    `json:"kind"`
	Value  string `json:"value"`
	Status int    `json:"status"`
	Call   int64  `json:"call"`
	Return int64  `json:"return"`
}

// The state is the value of the key; "" is an unknown key, and every value has "=" before it.
func step(before, input, _ interface{}) (bool, interface{}) {
	value, did := before.(string), input.(event)
	after, status := value, ok
	switch did.Kind {
	case create:
		if value == "" {
			after = "=" + did.Value
		} else {
			status = alreadyExists
		}
	case retrieve:
		if value == "" {
			status = notFound
		}
	case update:
		if value == "" {
			status = notFound
		} else {
			after = "=" + did.Value
		}
	default:
		after = ""
	}
	if did.Status == unknown { // its place may be after all others
		return true, after
	}
	read := did.Kind == retrieve && status == ok
	return did.Status == status && (!read || value == "="+did.Value), after
}

func main() {
	model := porcupine.Model{
		Init: func() interface{} { return "" },
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
