// Command hello stands in for the auditor, which takes minutes to compile.
package main

import "os"

func main() { os.Stdout.WriteString("hello\n") }
