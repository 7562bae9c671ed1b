/// Of this library.
public let miopVersion = "0.1.0"
