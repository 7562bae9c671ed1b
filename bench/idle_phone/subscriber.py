"""An idle phone by Paho for MQTT: ADDRESS CLIENT_ID KEEP_ALIVE_S."""

import sys

import paho.mqtt.client as mqtt

address, name, keep_alive = sys.argv[1:]
client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id=name)
client.on_connect = lambda it, *_: (print("# bound", flush=True), it.subscribe(f"to/{name}", 1))
client.on_message = lambda _, __, message: print(message.payload.decode(), flush=True)
host, port = address.split(":")
client.connect(host, int(port), int(keep_alive))
client.loop_forever()
