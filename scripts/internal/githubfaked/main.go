// Command githubfaked is a fake GitHub on a loopback address, for scripts.
//
//	go run ./scripts/internal/githubfaked -key key.pem world.json
//
// It writes the apps' private key to the named file, unless that is there already, prints one
// line with the address of its API and of its remote control,
//
//	http://127.0.0.1:40001 http://127.0.0.1:40002
//
// and serves until it is told to stop. What a world looks like stands at githubfake.ReadWorld, what
// the remote control can do at githubfake.Server.Control.
package main

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/golang-jwt/jwt/v5"

	"github.com/seed-de999ace/preloop/fixtures/githubfake"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "githubfaked:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	listen := flag.String("listen", "127.0.0.1:0", "where the API is")
	control := flag.String("control", "127.0.0.1:0", "where the remote control is")
	keyFile := flag.String("key", "key.pem", "the apps' private key; made when it is not there")
	flag.Parse()
	if flag.NArg() != 1 {
		return errors.New("want one argument, the file of the world")
	}
	key, err := privateKey(*keyFile)
	if err != nil {
		return err
	}
	file, err := os.Open(flag.Arg(0))
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // it was only read
	fake, err := githubfake.ReadWorld(file, &key.PublicKey)
	if err != nil {
		return err
	}
	api, err := loopback(*listen)
	if err != nil {
		return err
	}
	remote, err := loopback(*control)
	if err != nil {
		return err
	}
	fake.SetURL("http://" + api.Addr().String())
	failed := make(chan error, 2)
	go func() { failed <- http.Serve(api, fake) }()
	go func() { failed <- http.Serve(remote, fake.Control()) }()
	fmt.Printf("http://%s http://%s\n", api.Addr(), remote.Addr())
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}

// loopback listens where nobody else can reach it.
func loopback(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	if tcp, ok := l.Addr().(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() {
		_ = l.Close()
		return nil, fmt.Errorf("%s is no loopback address", address)
	}
	return l, nil
}

func privateKey(path string) (*rsa.PrivateKey, error) {
	text, err := os.ReadFile(path)
	if err == nil {
		return jwt.ParseRSAPrivateKeyFromPEM(text)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	text = pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	return key, os.WriteFile(path, text, 0o600)
}
