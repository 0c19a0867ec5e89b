package process

import (
	"fmt"
	"net"
)

// FreePorts finds n loopback ports that are free. They are all held
// until the last is found, so that they differ; another program may still take
// one before its use, which is why a control plane that does not come up is
// tried again.
func FreePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("finding a free port: %w", err)
		}
		defer l.Close() // at the end of the function, on purpose
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
