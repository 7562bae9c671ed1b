/** Push messages from Holdline, by MIOP 7 over WebSocket: see README.md. In Node: ./node.js. */

export { Client, Ended, type Options, Push } from "./client.js";
export {
  type Clock, type Connection, type ConnectionEvents, type Connector, LocalStore, MemoryStore,
  realClock, type Store, webSocketConnector,
} from "./connection.js";
export type { HeartbeatOptions } from "./heartbeat.js";
export type { Credentials, State } from "./machine.js";
export { QueueFull } from "./reports.js";
export type { PushRecord } from "./wire.js";
