package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"holdline.example/miop"
)

func main() {
	client, err := miop.New(miop.Options{
		Addresses: []string{os.Args[1]}, // host:port
		Product:   "demo",
		Device:    os.Args[2],
		Store:     miop.FileStore(os.Args[2] + ".state"),
		OnPush: func(push miop.Push) error {
			fmt.Printf("push %d %s\n", push.ID, push.Body)
			return nil // the push is acknowledged now
		},
		OnState: func(state miop.State) { fmt.Println(state.Name, state.Why) },
	})
	if err == nil {
		_, err = client.Report([]byte("hello from Go"))
	}
	if err == nil {
		err = client.Run(context.Background())
	}
	log.Fatal(err)
}
