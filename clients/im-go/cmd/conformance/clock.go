package main

import (
	"sync"
	"time"
)

// clock is set by the suite.
type clock struct {
	mu    sync.Mutex
	begin time.Time
	now   time.Time
	at    time.Time
	wake  func()
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) WakeAt(at time.Time, wake func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at, c.wake = at, wake
}

// set runs what is due at a time.
func (c *clock) set(ms int64) {
	c.mu.Lock()
	c.now = c.begin.Add(time.Duration(ms) * time.Millisecond)
	c.mu.Unlock()
	for c.isDue() {
		c.mu.Lock()
		wake := c.wake
		c.mu.Unlock()
		wake()
	}
}

func (c *clock) isDue() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.at.IsZero() && !c.at.After(c.now)
}

// next is the time of the timer, nil without one.
func (c *clock) next() any {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.IsZero() {
		return nil
	}
	return c.at.Sub(c.begin).Milliseconds()
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
