package config

import _ "embed" // for Sample

// Sample is a whole, commented configuration: every key, where it has one with its default.
//
//go:embed sample.yaml
var Sample []byte
