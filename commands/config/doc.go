// Package config turns a file, the environment and flags into one validated Config.
//
// A value is taken from the flag, else the environment, else the file, else the default. The file
// is YAML without merge keys and tags. It is read strictly: every mistake that can be found is
// reported at once, each with the file, line and column of the value (or the name of the variable
// or flag) it came from. Secrets are never written in the file, only where they are to be found:
// {env: NAME} or {file: PATH}.
//
// How a file is read, top to bottom:
//
//	load.go      which file; the layers in their order
//	reader.go    text to nodes, and every mistake with its place
//	yaml.go      a value: objects, lists, scalars
//	file.go      every key but the sources and triggers
//	sources.go   apps and hooks
//	triggers.go  triggers
//	env.go       every variable and flag; env_apps.go the apps among them
//	check.go     what only two values together can get wrong
package config
