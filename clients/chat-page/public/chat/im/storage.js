/**
 * What a device keeps between two lives: its name, how far it has told its inbox, and what it has
 * said that is not stored yet.
 *
 * Storage that fails, or is not there, costs no more than that: what was kept is asked for again.
 */
import { parseQueue, printQueue } from "./outbox.js";
/** Storage that ends with the page. */
export class MemoryStorage {
    #items = new Map();
    getItem(key) {
        return this.#items.get(key) ?? null;
    }
    setItem(key, value) {
        this.#items.set(key, value);
    }
    removeItem(key) {
        this.#items.delete(key);
    }
}
/** The browser's, where a page may have it. */
export function usualStorage() {
    try {
        const storage = globalThis.localStorage;
        const probe = "holdline-im";
        storage.setItem(probe, "");
        storage.removeItem(probe);
        return storage;
    }
    catch {
        return new MemoryStorage();
    }
}
/** The part of a storage that belongs to one account at one server. */
export class Shelf {
    storage;
    prefix;
    constructor(storage, prefix) {
        this.storage = storage;
        this.prefix = prefix;
    }
    /** The device's name: the one that was kept, else `drawn`, which is kept from now on. */
    device(drawn) {
        const kept = this.#read("device");
        if (kept !== null && kept !== "")
            return kept;
        this.#write("device", drawn);
        return drawn;
    }
    remembered() {
        const last = this.#read("last");
        const isPlace = last !== null && /^[0-9]{1,15}$/.test(last);
        const queue = parseQueue(this.#read("queue") ?? "[]");
        return { last: isPlace ? Number(last) : undefined, queue };
    }
    keepLast(last) {
        this.#write("last", String(last));
    }
    keepQueue(queue) {
        if (queue.length > 0)
            this.#write("queue", printQueue(queue));
        else
            this.#remove("queue");
    }
    /** Forgets everything. */
    clear() {
        for (const name of ["device", "last", "queue"])
            this.#remove(name);
    }
    #read(name) {
        try {
            return this.storage.getItem(this.prefix + name);
        }
        catch {
            return null;
        }
    }
    #write(name, value) {
        try {
            this.storage.setItem(this.prefix + name, value);
        }
        catch {
            // It keeps what it has; this page goes on from memory.
        }
    }
    #remove(name) {
        try {
            this.storage.removeItem(this.prefix + name);
        }
        catch {
            // It is as it was.
        }
    }
}
