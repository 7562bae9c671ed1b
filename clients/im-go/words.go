package im

// The protocol's words (IM 8): why a session ends, why something was not done, and what follows.

import (
	"strings"

	"holdline.example/im/pb"
)

// Error says why something was not done.
type Error struct {
	// Code is a word of IM 8.2, or "disconnected", "queue_full".
	Code string
	// Reason is the operator's text for people; mostly empty.
	Reason string
}

func (e *Error) Error() string {
	if e.Reason == "" {
		return "im: " + e.Code
	}
	return "im: " + e.Code + ": " + e.Reason
}

// EndedError says why the server has ended the client for good.
type EndedError struct {
	// Why is a word of IM 8.1, or "server_not_proved".
	Why string
}

func (e *EndedError) Error() string { return "im: ended: " + e.Why }

// lasting are the reasons with which a client does not come back by itself.
var lasting = map[string]bool{"bad_credentials": true, "not_authorized": true,
	"name_invalid": true, "bad_method": true, "taken_over": true, "admin_kick": true,
	"expired": true, "malformed": true, "too_large": true, "out_of_order": true,
	"unknown_version": true}

// passing are the faults after which the same request may succeed.
var passing = map[string]bool{"busy": true, "store_full": true, "store_failed": true,
	"rate_limited": true}

// reasonWord: an unknown reason is treated as 0 (IM 8.1).
func reasonWord(reason pb.Reason) string {
	if _, isKnown := pb.Reason_name[int32(reason)]; !isKnown {
		reason = 0
	}
	return strings.ToLower(strings.TrimPrefix(reason.String(), "REASON_"))
}

func faultWord(fault pb.Fault) string {
	if _, isKnown := pb.Fault_name[int32(fault)]; !isKnown {
		fault = 0
	}
	return strings.ToLower(strings.TrimPrefix(fault.String(), "FAULT_"))
}
