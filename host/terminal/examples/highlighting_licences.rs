//! Prints the licences of the syntax definitions that code is highlighted with: they are part of the program, and their
//! licences ask that copies of it bring these texts along.

fn main() {
    print!("{}", two_face::acknowledgement::listing().to_md());
}
