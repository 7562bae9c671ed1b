package im

// The interval between signs of life: the longest that a network lets live.
//
// NATs and proxies forget a silent connection after a time that they do not tell. The interval
// grows by half while the connection survives it, and is halved between the longest that worked
// and the shortest that failed until the two are close.

const (
	// Answers at one interval before a longer one is tried.
	answersToGrow = 2
	// Number of answers after which a bound is forgotten, because networks change.
	answersToForget = 50
	settledS        = 10
)

// interval is what is known about one network, in seconds; 0: not known.
type interval struct {
	Now  int64 `json:"now"`
	Good int64 `json:"good,omitempty"`
	Bad  int64 `json:"bad,omitempty"`
}

type heartbeat struct {
	interval
	shortestS, firstS, longestS int64
	agreedS                     int64
	// Answers at this interval, and since the bound was found.
	answers, answersBounded int
	// suspectS is an interval that seems to have failed: it counts if the network is there.
	suspectS int64
}

// networksMax are remembered.
const networksMax = 16

// network is what is known about one that the application has named.
type network struct {
	Name string `json:"name"`
	interval
}

// use begins with what was learned about a network.
func (h *heartbeat) use(known interval) {
	h.interval, h.answers, h.answersBounded, h.suspectS = known, 0, 0, 0
	if h.Now == 0 {
		h.Now = h.firstS
	}
}

// intervalS is the silence after which a sign of life is due.
func (h *heartbeat) intervalS() int64 {
	return min64(min64(max64(h.Now, h.shortestS), h.longestS), h.agreedS)
}

// lived: a PING after so much silence was answered.
func (h *heartbeat) lived(seconds int64) {
	h.answers++
	h.Good = max64(h.Good, seconds)
	if h.Bad != 0 {
		h.answersBounded++
		if h.Good >= h.Bad || h.answersBounded >= answersToForget {
			h.Bad, h.answersBounded = 0, 0
		}
	}
	if h.answers < answersToGrow {
		return
	}
	h.answers = 0
	switch {
	case h.Bad == 0:
		h.Now = min64(seconds+seconds/2, h.longestS)
	case h.Bad-h.Good > max64(settledS, h.Good/8):
		h.Now = (h.Good + h.Bad) / 2
	}
}

// bound: the next connection succeeded. If it did so at the first attempt, the network was there,
// and the silence was what the connection before did not survive.
func (h *heartbeat) bound(atFirst bool) {
	failedS := h.suspectS
	h.suspectS = 0
	if failedS == 0 || !atFirst {
		return
	}
	h.Bad, h.answers, h.answersBounded = failedS, 0, 0
	if h.Good >= failedS {
		h.Good = 0
	}
	h.Now = h.Good
	if h.Good == 0 {
		h.Now = max64(failedS/2, h.shortestS)
	}
}
