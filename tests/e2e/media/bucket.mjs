// A storage that speaks S3: s3rver, with one bucket, on a port of its own,
// which is the first line that it prints. It ends with its standard input.

import { createRequire } from "node:module";

const [, , built, directory, bucket] = process.argv;
const S3rver = createRequire(`${built}/`)("s3rver");
const server = new S3rver({
  address: "127.0.0.1", port: 0, silent: true, directory, configureBuckets: [{ name: bucket }],
});
const { port } = await server.run();
console.log(port);
process.stdin.on("end", () => process.exit(0)).resume();
