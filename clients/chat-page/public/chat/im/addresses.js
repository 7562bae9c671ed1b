/** Where to connect: first where the server sends us, then to the configured URLs in turn. */
/** Ends with the name of another server that are followed without a wait between two sessions. */
const FOLLOWED_MAX = 3;
/** The URLs of one client. */
export class Addresses {
    configured;
    #turn = 0;
    #named = [];
    #current;
    #followed = 0;
    constructor(configured) {
        this.configured = configured;
        this.#current = configured[0];
    }
    /** The URL of the next attempt. */
    next() {
        const named = this.#named.shift();
        if (named === undefined)
            this.#turn += 1;
        this.#current = named ?? this.configured[(this.#turn - 1) % this.configured.length];
        return this.#current;
    }
    /** The next attempt is at the same URL. */
    again() {
        this.#named.unshift(this.#current);
    }
    /** A session has begun. */
    begun() {
        this.#followed = 0;
        this.#named = [];
    }
    /** The server names another one, `host:port`: the next attempt is there. */
    named(server) {
        const url = new URL(this.#current);
        url.host = server;
        this.#named.push(url.href);
    }
    /** Whether a server that was named is tried without a wait. */
    follows() {
        this.#followed += 1;
        return this.#followed <= FOLLOWED_MAX;
    }
}
