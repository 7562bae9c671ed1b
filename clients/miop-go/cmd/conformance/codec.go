package main

// Frames as the vectors of clients/conformance write them, and as the library does.

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"

	"holdline.example/miop/internal/wire"
)

type form int

const (
	number form = iota // up to 32 bits
	big                // 64 bits: a decimal text
	octets             // hex
	text
	triple // three numbers of 16 bits
)

type known struct {
	key  byte
	name string
	form form
}

// names of properties; the two that may be repeated are lists.
var names = []known{
	{wire.KeyDeviceID, "device_id", text}, {wire.KeyProductKey, "product_key", text},
	{wire.KeyClientTs, "client_ts", big}, {wire.KeyHeartbeatWish, "heartbeat_wish", triple},
	{wire.KeyHeartbeat, "heartbeat", number}, {wire.KeyClientNonce, "client_nonce", octets},
	{wire.KeyServerNonce, "server_nonce", octets}, {wire.KeyAuthType, "auth_type", number},
	{wire.KeyKeyID, "key_id", number}, {wire.KeyMac, "mac", octets},
	{wire.KeyToken, "token", octets}, {wire.KeyResumeToken, "resume_token", octets},
	{wire.KeyLastMsgID, "last_msg_id", big}, {wire.KeySessionEpoch, "session_epoch", big},
	{wire.KeyResult, "result", number}, {wire.KeyReason, "reason", text},
	{wire.KeyRetryAfterMs, "retry_after_ms", number}, {wire.KeyAddr, "addrs", text},
	{wire.KeyCaps, "caps", number}, {wire.KeyMaxFrame, "max_frame", number},
	{wire.KeyMaxInflight, "max_inflight", number},
	{wire.KeyAckTimeoutMs, "ack_timeout_ms", number},
	{wire.KeyOfflineCount, "offline_count", number}, {wire.KeyServerTime, "server_time", big},
	{wire.KeyTag, "tags", text}, {wire.KeyCount, "count", number},
	{wire.KeyReportSeq, "report_seq", number},
}

func isList(key byte) bool { return key == wire.KeyAddr || key == wire.KeyTag }

func toJSON(f *wire.Frame) (map[string]any, error) {
	out := map[string]any{"opcode": f.Opcode}
	if f.Opcode > wire.OpError {
		out["skipped"] = true
		return out, nil
	}
	if f.HasSeq {
		out["seq"] = f.Seq
	}
	if f.Flags&wire.FlagAckReq != 0 {
		out["ack_req"] = true
	}
	if f.Flags&wire.FlagDup != 0 {
		out["dup"] = true
	}
	properties := map[string]any{}
	for _, it := range names {
		if f.Props.Count(it.key) == 0 {
			continue
		}
		if isList(it.key) {
			properties[it.name] = f.Props.Texts(it.key)
		} else {
			properties[it.name] = valueToJSON(it.form, f.Props.Bytes(it.key))
		}
	}
	out["properties"] = properties
	if f.Opcode != wire.OpMsg {
		out["payload"] = hex.EncodeToString(f.Payload)
		return out, nil
	}
	records, err := wire.ParseRecords(f.Payload)
	list := []any{}
	for _, r := range records {
		list = append(list, map[string]any{"id": strconv.FormatUint(r.ID, 10), "app_id": r.AppID,
			"silent": r.Flags&wire.RecordSilent != 0, "high": r.Flags&wire.RecordHigh != 0,
			"expire_at": r.ExpireAt, "collapse": hex.EncodeToString(r.Collapse),
			"body": hex.EncodeToString(r.Body)})
	}
	out["records"] = list
	return out, err
}

func valueToJSON(form form, value []byte) any {
	var all uint64
	for _, b := range value {
		all = all<<8 | uint64(b)
	}
	switch form {
	case number:
		return all
	case big:
		return strconv.FormatUint(all, 10)
	case octets:
		return hex.EncodeToString(value)
	case triple:
		return []uint64{all >> 32, all >> 16 & 0xffff, all & 0xffff}
	}
	return string(value)
}

type frameJSON struct {
	Opcode     byte                       `json:"opcode"`
	Seq        *uint32                    `json:"seq"`
	AckReq     bool                       `json:"ack_req"`
	Dup        bool                       `json:"dup"`
	Properties map[string]json.RawMessage `json:"properties"`
	Payload    string                     `json:"payload"`
}

func fromJSON(in *frameJSON) (*wire.Frame, error) {
	f := &wire.Frame{Opcode: in.Opcode}
	if in.Seq != nil {
		f.Seq, f.HasSeq = *in.Seq, true
	}
	if in.AckReq {
		f.Flags |= wire.FlagAckReq
	}
	if in.Dup {
		f.Flags |= wire.FlagDup
	}
	for _, it := range names {
		raw, there := in.Properties[it.name]
		if !there {
			continue
		}
		if err := addFromJSON(&f.Props, it, raw); err != nil {
			return nil, fmt.Errorf("%s: %w", it.name, err)
		}
	}
	payload, err := hex.DecodeString(in.Payload)
	f.Payload = payload
	return f, err
}

func addFromJSON(props *wire.Properties, it known, raw json.RawMessage) error {
	if isList(it.key) {
		var list []string
		err := json.Unmarshal(raw, &list)
		for _, one := range list {
			props.Add(it.key, []byte(one))
		}
		return err
	}
	switch it.form {
	case triple:
		var three [3]uint64
		err := json.Unmarshal(raw, &three)
		props.AddNumber(it.key, three[0]<<32|three[1]<<16|three[2])
		return err
	case number:
		var all uint64
		err := json.Unmarshal(raw, &all)
		props.AddNumber(it.key, all)
		return err
	}
	var word string
	if err := json.Unmarshal(raw, &word); err != nil {
		return err
	}
	switch it.form {
	case big:
		all, err := strconv.ParseUint(word, 10, 64)
		props.AddNumber(it.key, all)
		return err
	case octets:
		bytes, err := hex.DecodeString(word)
		props.Add(it.key, bytes)
		return err
	}
	props.Add(it.key, []byte(word))
	return nil
}
