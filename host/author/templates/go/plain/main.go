// @{about}
package main

// The host calls the exported functions; nothing calls this one.
func main() {}
