// An idle phone by the library for Go: ADDRESS PRODUCT DEVICE FIRST_S.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"holdline.example/miop"
)

func main() {
	first, err := time.ParseDuration(os.Args[4] + "s")
	if err != nil {
		log.Fatal(err)
	}
	client, err := miop.New(miop.Options{
		Addresses: []string{os.Args[1]}, Product: os.Args[2], Device: os.Args[3],
		Heartbeat: miop.HeartbeatRange{First: first},
		OnPush:    func(push miop.Push) error { fmt.Println(string(push.Body)); return nil },
		OnState:   func(state miop.State) { fmt.Println("#", state) },
	})
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(client.Run(context.Background()))
}
