// Package installations compares the findings on real software with what is true of
// it: the manifests of released versions, read from the Go modules that
// ship them. The list is here, the manifests are not.
package installations
