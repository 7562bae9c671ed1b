package miop

// Where to connect: first where the server sends us, then where the device was bound last, then
// the configured addresses in turn.

// An end with addresses is followed at once so many times in succession: two servers that name
// each other get the back-off.
const followedMax = 3

type addresses struct {
	configured []string
	next       int      // in configured
	first      []string // to be tried before them, once each
	current    string
	followed   int
}

func (a *addresses) take() string {
	if len(a.first) > 0 {
		a.current, a.first = a.first[0], a.first[1:]
		return a.current
	}
	a.current = a.configured[a.next%len(a.configured)]
	a.next++
	return a.current
}

// lost: the session at the current address ended, and the server may have named others.
func (a *addresses) lost(wasBound bool, named []string) {
	if wasBound {
		a.first = []string{a.current}
	}
	if len(named) > 0 {
		a.first = append(append([]string{}, named...), a.lastBound()...)
	}
}

// lastBound is what is kept behind newer addresses of the server.
func (a *addresses) lastBound() []string {
	if len(a.first) == 0 {
		return nil
	}
	return a.first[len(a.first)-1:]
}

// follow says whether addresses of the server are tried without a wait.
func (a *addresses) follow(named []string) bool {
	if len(named) == 0 || a.followed >= followedMax {
		return false
	}
	a.followed++
	return true
}

// again: the next attempt is at the same address.
func (a *addresses) again() { a.first = append([]string{a.current}, a.first...) }
