// Command receive keeps pushes in a file of its own before it acknowledges them, reports what it
// has done, and says good-bye when it is interrupted.
//
//	receive HOST:PORT PRODUCT DEVICE FILE
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	"holdline.example/miop"
)

func main() {
	if len(os.Args) != 5 {
		log.Fatal("usage: receive HOST:PORT PRODUCT DEVICE FILE")
	}
	file, err := os.OpenFile(os.Args[4], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		log.Fatal(err)
	}
	pushes := make(chan miop.Push, 32)
	client, err := miop.New(miop.Options{
		Addresses: []string{os.Args[1]}, Product: os.Args[2], Device: os.Args[3],
		Store:     miop.FileStore(os.Args[4] + ".state"),
		ManualAck: true,
		OnPush: func(push miop.Push) error {
			pushes <- push
			return nil
		},
		OnState:  func(state miop.State) { log.Println(state.Name, state.Why) },
		OnStored: func(clientID string) { log.Println("the server has Report", clientID) },
	})
	if err != nil {
		log.Fatal(err)
	}
	go keep(client, file, pushes)
	interrupt, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	go func() {
		<-interrupt.Done()
		client.Close()
	}()
	if err := client.Run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

// keep writes each push to the disk, and only then acknowledges it.
func keep(client *miop.Client, file *os.File, pushes <-chan miop.Push) {
	for push := range pushes {
		_, err := fmt.Fprintf(file, "%d %s\n", push.ID, push.Body)
		if err == nil {
			err = file.Sync()
		}
		if err != nil {
			log.Println(err)
			_ = client.Reject(push.ID) // the server sends it again
			continue
		}
		if err := client.Ack(push.ID); err != nil {
			log.Println(err)
		}
		// The id of the push is that of the Report, so it is not reported twice.
		if err := client.ReportAs(fmt.Sprint(push.ID), []byte("stored")); err != nil {
			log.Println(err)
		}
	}
}
