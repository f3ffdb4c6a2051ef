// Command preloop makes GitHub webhooks safe to build on.
package main

import (
	"os"

	"github.com/seed-de999ace/preloop/commands"
)

func main() { os.Exit(commands.Main()) }
