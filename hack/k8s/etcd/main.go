// Command etcd is the etcd server. The etcd project publishes its server as a library
// only, so this main is all that is missing.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
