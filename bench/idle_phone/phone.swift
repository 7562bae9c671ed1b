// An idle phone by the library for Swift: ADDRESS PRODUCT DEVICE FIRST_S.

import Foundation
import HoldlineMiop

let words = CommandLine.arguments
var options = Options(words[1], product: words[2], device: words[3])
options.heartbeat.first = Int(words[4])!
options.onPush = { print($0.text) }
options.onState = { print("#", $0) }
let client = try Client(options)
client.start()
dispatchMain()
